"""Columns are kept in bounded memory, those that were asked for last."""

from ragweir.streams.console.store.column_cache import ColumnCache


def test_those_that_were_asked_for_last_are_kept() -> None:
    reads: list[int] = []
    cache = ColumnCache(max_bytes=3_800)

    def asked(first: int) -> None:
        found = cache.get((7, first), lambda: (reads.append(first), memoryview(bytes(1_000)))[1])
        assert found is not None
        assert len(found) == 1_000
        assert cache.bytes <= 3_800

    for first in (1, 2, 3, 1, 4, 1, 3, 2):
        asked(first)
    assert reads == [1, 2, 3, 4, 2], "when 4 came, 2 had waited longest"
    cache.clear()
    assert cache.bytes == 0
    asked(1)
    assert reads[-1] == 1


def test_a_column_that_is_too_large_is_read_each_time() -> None:
    cache = ColumnCache(max_bytes=500)
    for _ in range(2):
        assert len(cache.get((1, 0), lambda: memoryview(bytes(1_000))) or b"") == 1_000
        assert cache.bytes == 0
