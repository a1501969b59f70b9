"""Keeps Kafka's classes as Java laid them out in memory: with that file a broker starts on half the CPU time."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

# Signalled to end in order, Java says that it was: no other end has written all of the file.
_ENDED_IN_ORDER: Final = (0, 143, -15)


class ClassArchive:
    """One file per Kafka and Java, written by the first broker that ends in order and read by all that start later.

    Java ignores a missing file and one of other jars, but not half a file: hence the rename at the end.
    """

    def __init__(self, jars: Path, java: str) -> None:
        self._kept = jars.with_name(f"{jars.name}-{sha256(java.encode()).hexdigest()[:8]}.jsa")
        self._written = self._kept.with_suffix(f".{os.getpid()}-{id(self)}")

    def reading(self) -> list[str]:
        """Java's options that make use of the file, if there is one."""
        return [f"-XX:SharedArchiveFile={self._kept}"] if self._kept.exists() else []

    def reading_or_writing(self) -> list[str]:
        """The same, and where there is no file, Java's options that write one at the end."""
        return self.reading() or [f"-XX:ArchiveClassesAtExit={self._written}", "-Xlog:cds*=off"]

    def ended(self, status: int) -> None:
        """Keep what a broker that ended with this exit status has written."""
        if status in _ENDED_IN_ORDER and self._written.exists():
            self._written.rename(self._kept)
        self._written.unlink(missing_ok=True)
