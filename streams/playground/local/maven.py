"""Resolves Kafka's jars with Maven: for the sums in this repository, and for the versions that only tests use."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local import sums
from ragweir.streams.playground.local.node import KAFKA_VERSION, POM

_FETCH_SECONDS: Final = 900


def copy_dependencies(scratch: Path, version: str, *options: str) -> Path:
    """Fetch the jars of a version of Kafka into a folder of `scratch`, and return it.

    Raises:
        LocalServerError: Maven is missing or could not fetch them.
    """
    mvn = shutil.which("mvn")
    if mvn is None:
        raise LocalServerError(f"the jars of Kafka {version} are resolved with Maven, and it is not installed.")
    pom, jars = scratch / "pom.xml", scratch / "jars"
    pom.write_text(POM, encoding="utf-8")
    given = (f"-Dkafka.version={version}", f"-DoutputDirectory={jars}", *options)
    command = [mvn, "-B", "-C", "-q", "-f", str(pom), "dependency:copy-dependencies", *given]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise LocalServerError(f"Maven did not fetch Kafka {version} in {_FETCH_SECONDS} s.") from error
    if done.returncode != 0:
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line]
        reason = errors[0].partition("ERROR] ")[2].partition(" -> [Help")[0] if errors else done.stderr.strip()
        raise LocalServerError(f"Maven could not fetch Kafka {version}: {reason}")
    return jars


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as _scratch:
        sums.write(copy_dependencies(Path(_scratch), KAFKA_VERSION, "-Dmdep.useRepositoryLayout=true"))
