"""One line of a file is the one that reading all of its lines yields."""

import io
import random

import pytest

from ragweir.streams.files import lines
from ragweir.streams.files.lines import line_at, read_lines


@pytest.mark.parametrize("block", [1, 7, 64, 1024 * 1024])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n  \n"])
def test_a_line_is_that_of_reading_them_all(block: int, end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also blank ones, those over the limit, and those that end where a block ends."""
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block)
    chance = random.Random(block)
    content = b"\n".join(b"x" * chance.choice((0, 1, 6, 63, 64, 200)) for _ in range(60)) + end
    every = dict(read_lines(io.BytesIO(content), 100))
    assert len(every) > 30
    for number in range(-1, 70):
        assert line_at(io.BytesIO(content), number, 100) == every.get(number)


def test_no_line_before_it_is_read_by_itself() -> None:
    class Counted(io.BytesIO):
        lines = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            self.lines += 1
            return super().readline(size)

    file = Counted(b"{}\n" * 10_000)
    assert line_at(file, 9_999, 100) == b"{}"
    assert file.lines == 1
