"""A broker with an authorizer, under which nobody but the administrator has a right that was not granted."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from chaos.acls import USERS
from chaos.fleet import environment
from ragweir.errors import LocalServerError
from ragweir.streams.playground.local.jars import JarRunner
from ragweir.streams.playground.local.java import find_java
from ragweir.streams.playground.local.kafka import LocalKafka
from ragweir.streams.playground.local.node import KAFKA_VERSION, LOOPBACK, Node, free_ports

PREFIX = "rag."
_SECRET = "a password of nobody"  # noqa: S105 (of a broker that lives for a minute, on loopback)
_MECHANISM = "SCRAM-SHA-512"
_MODULES = "org.apache.kafka.common.security"
_CALL_S = 30.0


@contextmanager
def guarded_broker(
    folder: Path, listeners: Mapping[str, str], properties: Mapping[str, str], version: str = KAFKA_VERSION
) -> Iterator[Mapping[str, str]]:
    """Run a broker with an authorizer for the length of a `with` block; yields the address of each listener.

    Args:
        folder: a folder for its data; it gets the certificate `ca.pem`.
        listeners: the protocols of the listeners besides `PLAINTEXT`, which may do everything.
        properties: further properties.
        version: the version of Kafka.

    Raises:
        LocalServerError: if this Kafka cannot be downloaded or started, or there is no keytool beside Java.
    """
    folder.mkdir(parents=True, exist_ok=True)
    protocols = {"PLAINTEXT": "PLAINTEXT", **listeners}
    controller, *ports = free_ports(1 + len(protocols))
    addresses = {name: f"{LOOPBACK}:{port}" for name, port in zip(protocols, ports, strict=True)}
    advertised = ",".join(f"{name}://{address}" for name, address in addresses.items())
    own = {
        "listeners": f"{advertised},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": advertised,
        "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items())
        + ",CONTROLLER:PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(_key_store(folder)),
        "ssl.keystore.password": _SECRET,
        "ssl.key.password": _SECRET,
    }
    node = Node(ports[0], controller, {**own, **properties})
    runner = JarRunner(node, folder / "kafka", lambda _: None, version=version)
    try:
        LocalKafka(node, runner).start()
        yield addresses
    finally:
        runner.discard()


def _key_store(folder: Path) -> Path:
    keytool = shutil.which("keytool", path=str(Path(find_java()[0]).parent))
    if keytool is None:
        raise LocalServerError("keytool is not beside Java: a Java without it cannot make certificates.")
    store = folder / "store.p12"
    options = ("-keystore", str(store), "-storepass", _SECRET, "-alias", "broker")
    generate = ("-genkeypair", *options, "-storetype", "PKCS12", "-keyalg", "RSA", "-dname", f"CN={LOOPBACK}")
    subprocess.run([keytool, *generate, "-ext", f"san=ip:{LOOPBACK}"], check=True, capture_output=True)
    exported = subprocess.run([keytool, "-exportcert", "-rfc", *options], check=True, capture_output=True)
    (folder / "ca.pem").write_bytes(exported.stdout)
    return store


def login(mechanism: str, module: str, options: str = "") -> dict[str, str]:
    """Return the property by which the listener `USERS` signs users in by a mechanism."""
    name = f"listener.name.users.{mechanism.lower()}.sasl.jaas.config"
    return {name: f"{_MODULES}.{module} required{' ' if options else ''}{options};"}


class Guarded:
    """A broker with three listeners: plain for the administrator, with TLS, and with TLS and SASL/SCRAM for users."""

    def __init__(
        self, folder: Path, version: str = KAFKA_VERSION, properties: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._folder, self._version, self._more = folder, version, properties
        self._addresses: Mapping[str, str] = {}

    @property
    def plain(self) -> str:
        """Address of the plain listener."""
        return self._addresses["PLAINTEXT"]

    @contextmanager
    def running(self) -> Iterator[AdminClient]:
        """Run it for the length of a `with` block, with the users of the ACLs, whose passwords are their names.

        Raises:
            LocalServerError: if this Kafka cannot be downloaded or started.
        """
        signing = {"sasl.enabled.mechanisms": _MECHANISM, **login(_MECHANISM, "scram.ScramLoginModule")}
        listeners = {"TLS": "SSL", "USERS": "SASL_SSL"}
        with guarded_broker(self._folder, listeners, {**signing, **self._more}, self._version) as self._addresses:
            admin = AdminClient({"bootstrap.servers": self.plain, "log_level": 0})
            scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
            users = [UserScramCredentialUpsertion(f"ragweir-{user}", scram, user.encode()) for user in USERS]
            for future in admin.alter_user_scram_credentials(users).values():  # type: ignore[arg-type]
                future.result(_CALL_S)
            yield admin

    def as_administrator(self, *, tls: bool = False, ca: bool = True) -> dict[str, str]:
        """Return settings of the plain listener, or of that with TLS, with or without its authority's certificate."""
        client = {"security.protocol": "SSL"} | (self._ca() if ca else {})
        return self._settings("TLS" if tls else "PLAINTEXT", client if tls else {})

    def as_user(self, user: str, password: str = "") -> dict[str, str]:
        """Return settings of a user; the password is the user's own unless another is given."""
        client = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": _MECHANISM,
            "sasl.username": f"ragweir-{user}",
            "sasl.password": password or user,
        }
        return self._settings("USERS", client | self._ca())

    def _ca(self) -> dict[str, str]:
        return {"ssl.ca.location": str(self._folder / "ca.pem")}

    def _settings(self, listener: str, client: Mapping[str, str]) -> dict[str, str]:
        return environment(self._addresses[listener], PREFIX, client, topics__partitions=2)
