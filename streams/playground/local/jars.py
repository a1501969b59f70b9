"""Kafka from Maven Central's jars, for machines without a Docker engine: fetched once, run by the machine's Java."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local import sums
from ragweir.streams.playground.local.class_archive import ClassArchive
from ragweir.streams.playground.local.node import CLUSTER_ID, KAFKA_VERSION, POM, Node

_OLDEST_JAVA: Final = 17
_INSTALL: Final = "(Debian, Ubuntu: apt-get install default-jre-headless maven)"
_FETCH_SECONDS: Final = 900
_STOP_SECONDS: Final = 20
# Brokers here live for seconds or minutes: code that is compiled more thoroughly would cost more than it saves.
_QUICK_START: Final = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:TieredStopAtLevel=1")
# Runs beside the broker and reads a pipe that only we hold open: when we die, however we die, the pipe ends. Linux's
# own parent-death signal would fire with the thread, not the process, that started the broker.
_WATCHDOG: Final = 'read -r _; kill -9 "$1"; test -z "$2" || rm -rf -- "$2"'


def find_java() -> tuple[str, str]:
    """Return the Java to run Kafka with, JAVA_HOME's or the first on the PATH, and what it tells of its version.

    Raises:
        LocalServerError: there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        raise LocalServerError(f"Kafka needs Java {_OLDEST_JAVA} or later, and none is installed {_INSTALL}.")
    told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(\d+)', told)
    if version is None or int(version[1]) < _OLDEST_JAVA:
        raise LocalServerError(f"Kafka needs Java {_OLDEST_JAVA} or later, and {java} is older {_INSTALL}.")
    return java, told


def fetch(say: Callable[[str], None], version: str = KAFKA_VERSION) -> Path:
    """Return the folder of Kafka's jars, filled by Maven the first time, with any number of processes asking at once.

    Every time the jars of the version in pom.xml are compared with the SHA-256 sums in this repository, which takes
    about 0.1 s. For other versions, on which ragweir is only tried, Maven's comparison with the sums that Maven Central
    gives is all that there is.

    Raises:
        LocalServerError: Maven is missing or could not fetch them, or they are not the ones that they should be.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ragweir"
    jars = cache / f"kafka-{version}-{sha256(POM.encode()).hexdigest()[:8]}"
    pinned = version == KAFKA_VERSION
    if jars.exists():
        return _checked(jars, f"{jars} is not used; remove it, and it is fetched again") if pinned else jars
    mvn = _find_maven()
    cache.mkdir(parents=True, exist_ok=True)
    # The lock saves a second download, and Maven's own store from two writers; the rename keeps half a download unseen.
    with (cache / "fetch.lock").open("w") as lock, tempfile.TemporaryDirectory(dir=cache) as scratch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jars.exists():
            say(f"Fetching Kafka {version} from Maven Central (about 43 MB, once)")
            fetched = _copy_dependencies(mvn, Path(scratch), version)
            (_checked(fetched, "what Maven has fetched is not used") if pinned else fetched).rename(jars)
    return jars


def _checked(jars: Path, consequence: str) -> Path:
    """A folder of jars, if they are those that the repository names.

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
    """Have Maven fetch the jars of pom.xml, and name their sums in this repository, after a change of version.

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


class JarRunner:
    """Runs a node as a Java process in a session of its own, so that Ctrl-C in a terminal reaches us and not Kafka.

    Everything it writes is in one folder: data, configuration and log. A temporary folder is removed at the end.

    Args:
        node: what is run.
        folder: where it writes; None for a temporary folder.
        say: called with a sentence about what takes long.
        version: of Kafka.
        heap: the most memory that Java's objects take, as Java's option -Xmx has it.
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
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    def _command(self, archive: Sequence[str], main: str, *arguments: str, heap: str) -> list[str]:
        jvm = ["-cp", f"{self._jars}/*", f"-Xmx{heap}", "-Dlog4j2.level=WARN", *_QUICK_START, *archive]
        return [self._java, *jvm, main, *arguments]

    def start(self) -> None:
        """Begin to run; a folder without data is made ready first."""
        if not (self._folder / "data" / "meta.properties").exists():
            self._format()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command(self._archive.reading_or_writing(), "kafka.Kafka", "server.properties", heap=self._heap),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._watchdog = subprocess.Popen(
            ["sh", "-c", _WATCHDOG, "sh", str(self._process.pid), str(self._folder) if self._temporary else ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
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

    def stop(self) -> None:
        """Ask the broker to shut down, and end it when it takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._reap()

    def kill(self) -> None:
        """End the broker at once."""
        if self._process is None:
            return
        self._process.kill()
        self._reap()

    def _reap(self) -> None:
        if self._process is not None:
            self._archive.ended(self._process.wait())
        if self._watchdog is not None:
            self._watchdog.kill()  # before its pipe is closed: it must not act on a process id that is free again
            self._watchdog.communicate()
        self._process = self._watchdog = None

    def last_words(self) -> str | None:
        """Tell the end of the log of a broker that no longer runs; None while it runs."""
        if self._process is not None and self._process.poll() is None:
            return None
        return "\n".join(self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])

    def discard(self) -> None:
        """Stop, and remove a temporary folder."""
        try:
            self.stop()
        finally:
            if self._temporary:
                shutil.rmtree(self._folder, ignore_errors=True)


if __name__ == "__main__":
    renew_sums()
