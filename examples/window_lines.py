"""A projection that appends each record of a window to a file, as one line of JSON.

To add a projection to ragweir, change at most four files of the product:

1. ``streams/services/export/NAME.py``: the projection. Here it is this module, unchanged.
2. ``streams/services/export/service.py``: its line of the table, which gives it a command of its own, a place in
   ``ragweir up``, a telemetry port and a check by ``ragweir doctor``.
3. ``streams/settings/__init__.py``: its group of settings, if it has any.
4. ``streams/services/instruments.py``: its instruments, which are those of every process, for lag and the broker's
   state, and its own, if it has any.

``window_lines.patch`` beside this module holds the changes of the last three. To try it, run at the repository's root::

    cp examples/window_lines.py streams/services/export/
    git apply examples/window_lines.patch
    RAGWEIR_WINDOW_LINES__FILE=windows.jsonl ragweir window-lines

To keep it, let ``python -m tools.reference`` write the tables of settings and telemetry again.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import BinaryIO

import orjson
from typing_extensions import override

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.schemas.window_key import WindowKey, parse_window_key
from ragweir.streams.runtime.projection import Projection
from ragweir.streams.runtime.records import Count, Measurements, Record


class WindowLines(Projection):
    """Appends `{"key": ..., "window": ...}` for each window whose record is new; `window` is null where it was deleted.

    The last line of a key holds the current window. Each start appends the windows of the last day again, so an outage
    of up to a day loses none.

    Args:
        file: the file to append to.

    Raises:
        ConfigurationError: if no file is named.
    """

    def __init__(self, file: Path | None) -> None:
        if file is None:
            raise ConfigurationError("there is no file for windows: set window_lines.file")
        self._path = file
        self._file: BinaryIO | None = None
        self._lines: dict[bytes, bytes] = {}
        """The lines that are not written yet, by the keys of their records."""
        self._counts: Counter[Count] = Counter()

    @property
    @override
    def topics(self) -> tuple[str, ...]:
        return ("windows",)

    @property
    @override
    def since_s(self) -> float:
        return 86_400.0

    @override
    def open(self) -> None:
        try:
            self._file = self._path.open("ab")
        except OSError as error:
            raise PermanentError(f"{self._path} cannot be opened: {error.strerror}") from None

    @override
    def take(self, record: Record) -> None:
        key = record.key or b""
        try:
            window = None if record.value is None else orjson.loads(record.value)
            if isinstance(parse_window_key(key), WindowKey):
                self._lines[key] = orjson.dumps({"key": orjson.Fragment(key), "window": window}) + b"\n"
        except ValueError:
            self._counts["ragweir_window_lines_total", "unreadable"] += 1

    @override
    def flush(self, now_s: float, *, caught_up: bool) -> None:
        if caught_up and self._file is not None and self._lines:
            self._file.writelines(self._lines.values())
            self._file.flush()
            self._counts["ragweir_window_lines_total", "written"] += len(self._lines)
            self._lines.clear()

    @override
    def drain_metrics(self) -> Measurements:
        counts, self._counts = self._counts, Counter()
        return Measurements(counts)

    @override
    def close(self) -> None:
        if self._file is not None:
            self._file.close()
