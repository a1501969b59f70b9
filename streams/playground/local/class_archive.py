"""Java's archive of Kafka's loaded classes (CDS), with which a broker starts in half the CPU time."""

import os
from hashlib import sha256
from pathlib import Path
from typing import Final

# The exit statuses of Java after an ordered end; after any other the file may be incomplete.
_ORDERED_ENDS: Final = (0, 143, -15)


class ClassArchive:
    """One file per version of Kafka and Java, written when a broker ends and read by all that start later.

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
