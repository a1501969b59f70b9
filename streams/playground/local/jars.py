"""Kafka from Maven Central's jars: fetched once, run by Java."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local import maven, repository, sums
from ragweir.streams.playground.local.cache_folder import cached
from ragweir.streams.playground.local.java import find_java, own_classes
from ragweir.streams.playground.local.node import CLUSTER_ID, KAFKA_VERSION, POM, Node
from ragweir.streams.playground.process import LocalProcess, last_lines

# Local brokers run for seconds or minutes: compiling their code more thoroughly would cost more than it saves.
_QUICK_START: Final = ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:TieredStopAtLevel=1")
# The exit statuses of Java after an ordered end; after any other the file may be incomplete.
_ORDERED_ENDS: Final = (0, 143, -15)


class ClassArchive:
    """Java's archive of Kafka's loaded classes (CDS), with which a broker starts in half the CPU time.

    One file per version of Kafka and Java, written when a broker ends and read by all that start later.

    Java ignores a missing file and one of other jars, but not an incomplete one; hence the rename at the end.

    Args:
        jars: the folder of Kafka's jars; the file is beside it.
        java: the version text of Java.
        own_classes: the archive of Java's own classes, if it is not in Java's folder.
    """

    def __init__(self, jars: Path, java: str, own_classes: Path | None = None) -> None:
        self._own_classes = own_classes
        self._file = jars.with_name(f"{jars.name}-{sha256(java.encode()).hexdigest()[:8]}.jsa")
        self._written = self._file.with_suffix(f".{os.getpid()}-{id(self)}")

    def reading(self) -> list[str]:
        """Return Java's options that read the file, if there is one."""
        files = [str(file) for file in (self._own_classes, self._file) if file is not None and file.exists()]
        return [f"-XX:SharedArchiveFile={':'.join(files)}"] if files else []

    def reading_or_writing(self) -> list[str]:
        """Return Java's options that read the file or, if there is none, write it at the end."""
        if self._file.exists():
            return self.reading()
        return [*self.reading(), f"-XX:ArchiveClassesAtExit={self._written}", "-Xlog:cds*=off"]

    def ended(self, status: int) -> None:
        """Keep the file of a broker that ended with this exit status, if it is complete."""
        if status in _ORDERED_ENDS and self._written.exists():
            self._written.rename(self._file)
        self._written.unlink(missing_ok=True)


def fetch(say: Callable[[str], None], version: str = KAFKA_VERSION) -> Path:
    """Return the folder of Kafka's jars, which are fetched the first time.

    The jars of the version in pom.xml are compared with the SHA-256 sums in this repository each time, which takes
    about 0.1 s. Those of other versions, which only tests use, are resolved and checked by Maven.

    Raises:
        LocalServerError: they could not be fetched, or their sums differ.
    """
    pinned = version == KAFKA_VERSION

    def fill(scratch: Path) -> Path:
        say(f"Fetching Kafka {version} from Maven Central (about 43 MB, once)")
        if not pinned:
            return maven.copy_dependencies(scratch, version)
        repository.fetch(sums.paths(), scratch / "jars")
        return _checked(scratch / "jars", "what was fetched is not used")

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


class JarRunner:
    """Runs a node as a Java process, with data, configuration and log in one folder.

    Port and data are kept when it is stopped or killed and started again.

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
        self._archive = ClassArchive(self._jars, java_version, own_classes(self._java, java_version))
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

    def start(self) -> None:
        """Start the node, without waiting for its answer."""
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

    def stop(self) -> None:
        """Shut the node down in order, if it runs."""
        if self._process is not None:
            self._archive.ended(self._process.stop())
            self._process = None

    def kill(self) -> None:
        """End the node as SIGKILL does."""
        if self._process is not None:
            self._archive.ended(self._process.kill())
            self._process = None

    def failure(self) -> str | None:
        """Return the end of the log of a node that no longer runs; None while it runs."""
        return None if self._process is not None and self._process.status is None else last_lines(self._log)

    def discard(self) -> None:
        """Stop the node, and remove what is temporary."""
        try:
            self.stop()
        finally:
            if self._temporary:
                shutil.rmtree(self._folder, ignore_errors=True)
