"""Certificates and keys of a server on loopback and of its client, made by openssl."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest


def make_certificates(folder: Path, password: str) -> Path:
    """Write certificates and keys of a server and of a client, whose key has a password; return the folder."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    for name, key in (("server", ["-nodes"]), ("client", ["-passout", f"pass:{password}"])):
        files = ["-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"]
        about = ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
        command = [openssl, "req", "-x509", "-newkey", "rsa:2048", *key, *files, *about]
        subprocess.run(command, check=True, capture_output=True)
    return folder


def server_tls(keys: Path) -> ssl.SSLContext:
    """Return TLS that asks for the client's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "server.pem", keys / "server.key")
    context.load_verify_locations(keys / "client.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context
