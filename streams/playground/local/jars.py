"""Kafka from Maven Central's jars, for machines without a Docker engine: fetched once, run by the machine's Java."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from typing_extensions import override

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local import sums
from ragweir.streams.playground.local.cache import cached
from ragweir.streams.playground.local.class_archive import ClassArchive
from ragweir.streams.playground.local.node import CLUSTER_ID, KAFKA_VERSION, POM, Node, NodeRunner
from ragweir.streams.playground.process import LocalProcess, last_lines

_OLDEST_JAVA: Final = 17
_INSTALL: Final = "(Debian, Ubuntu: apt-get install default-jre-headless maven)"
_FETCH_SECONDS: Final = 900
# Local brokers run for seconds or minutes: compiling their code more thoroughly would cost more than it saves.
_QUICK_START: Final = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:TieredStopAtLevel=1")


def find_java() -> tuple[str, str]:
    """Return the path of Java, from JAVA_HOME or the PATH, and its version text.

    Raises:
        LocalServerError: there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        raise LocalServerError(f"Kafka needs Java {_OLDEST_JAVA} or later, and none is installed {_INSTALL}.")
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', text)
    if version is None or int(version[1]) < _OLDEST_JAVA:
        raise LocalServerError(f"Kafka needs Java {_OLDEST_JAVA} or later, and {java} is older {_INSTALL}.")
    return java, text


def fetch(say: Callable[[str], None], version: str = KAFKA_VERSION) -> Path:
    """Return the folder of Kafka's jars, which Maven fetches the first time.

    The jars of the version in pom.xml are compared with the SHA-256 sums in this repository each time, which takes
    about 0.1 s. Those of other versions, which only tests use, are checked by Maven alone.

    Raises:
        LocalServerError: Maven is missing or could not fetch them, or their sums differ.
    """
    pinned = version == KAFKA_VERSION

    def fill(scratch: Path) -> Path:
        mvn = _find_maven()
        say(f"Fetching Kafka {version} from Maven Central (about 43 MB, once)")
        fetched = _copy_dependencies(mvn, scratch, version)
        return _checked(fetched, "what Maven has fetched is not used") if pinned else fetched

    jars = cached(f"kafka-{version}-{sha256(POM.encode()).hexdigest()[:8]}", fill)
    return _checked(jars, f"{jars} is not used; remove it, and it is fetched again") if pinned else jars


def _checked(jars: Path, consequence: str) -> Path:
    """Return a folder of jars if their sums are those in the repository.

    Raises:
        LocalServerError: they are not.
    """
    if wrong := sums.difference(sums.found(jars), sums.expected()):
        raise LocalServerError(f"Kafka's jars are not as they should be: {wrong}; {consequence}.")
    return jars


def _find_maven() -> str:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise LocalServerError(f"Kafka's jars are fetched with Maven, and it is not installed {_INSTALL}.")
    return mvn


def renew_sums() -> None:
    """Fetch the jars of pom.xml, and write their sums to this repository; to be called after a change of version.

    Raises:
        LocalServerError: Maven is missing or could not fetch them.
    """
    with tempfile.TemporaryDirectory() as scratch:
        sums.write(_copy_dependencies(_find_maven(), Path(scratch), KAFKA_VERSION))


def _copy_dependencies(mvn: str, scratch: Path, version: str) -> Path:
    pom, jars = scratch / "pom.xml", scratch / "jars"
    pom.write_text(POM, encoding="utf-8")
    given = (f"-Dkafka.version={version}", f"-DoutputDirectory={jars}")
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


class JarRunner(NodeRunner):
    """Runs a node as a Java process, with data, configuration and log in one folder.

    Args:
        node: the node.
        folder: where it writes; None for a temporary folder, which is removed at the end.
        say: called with a sentence about what takes long.
        version: of Kafka.
        heap: the size of Java's heap, as in its option -Xmx.
    """

    def __init__(
        self,
        node: Node,
        folder: Path | None,
        say: Callable[[str], None],
        *,
        version: str = KAFKA_VERSION,
        heap: str = "512m",
    ) -> None:
        self._java, java_version = find_java()
        self._jars, self._heap = fetch(say, version), heap
        self._archive = ClassArchive(self._jars, java_version)
        self._temporary = folder is None
        self._folder = folder or Path(tempfile.mkdtemp(prefix="ragweir-kafka-"))
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._log = self._folder / "broker.log"
        configuration = node.configuration(data="data")
        lines = (f"{key}={value}\n" for key, value in configuration.items())
        (self._folder / "server.properties").write_text("".join(lines), encoding="utf-8")
        self._process: LocalProcess | None = None

    def _command(self, archive: Sequence[str], main: str, *arguments: str, heap: str) -> list[str]:
        jvm = ["-cp", f"{self._jars}/*", f"-Xmx{heap}", "-Dlog4j2.level=WARN", *_QUICK_START, *archive]
        return [self._java, *jvm, main, *arguments]

    @override
    def start(self) -> None:
        if not (self._folder / "data" / "meta.properties").exists():
            self._format()
        self._process = LocalProcess(
            self._command(self._archive.reading_or_writing(), "kafka.Kafka", "server.properties", heap=self._heap),
            self._log,
            folder=self._folder,
            temporary=self._folder if self._temporary else None,
        )

    def _format(self) -> None:
        arguments = ["format", "--config", "server.properties", "--cluster-id", CLUSTER_ID]
        command = self._command(self._archive.reading(), "kafka.tools.StorageTool", *arguments, heap="128m")
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LocalServerError(f"Kafka could not format {self._folder}:\n{(done.stderr + done.stdout).strip()}")

    @property
    def pid(self) -> int | None:
        """The id of the broker's process; None while there is none."""
        return self._process.pid if self._process is not None else None

    @override
    def stop(self) -> None:
        if self._process is not None:
            self._archive.ended(self._process.stop())
            self._process = None

    @override
    def kill(self) -> None:
        if self._process is not None:
            self._archive.ended(self._process.kill())
            self._process = None

    @override
    def failure(self) -> str | None:
        return None if self._process is not None and self._process.status is None else last_lines(self._log)

    @override
    def discard(self) -> None:
        try:
            self.stop()
        finally:
            if self._temporary:
                shutil.rmtree(self._folder, ignore_errors=True)


if __name__ == "__main__":
    renew_sums()
