"""Stored answers: the newest are kept, over restarts and between processes, and a broken file costs nothing else."""

import itertools
import os
import sqlite3
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.streams.services.judge.cache import Cache, key
from ragweir.streams.settings import JudgeSettings


@pytest.fixture(params=["memory", "file"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "answers.sqlite" if request.param == "file" else None


def test_the_newest_answers_are_kept_and_no_more(file: Path | None) -> None:
    cache = Cache(3, file)
    for number in range(10):
        cache.put(b"%d" % number, f"answer {number}")
    assert [cache.get(b"%d" % number) for number in range(10)] == [None] * 7 + [f"answer {n}" for n in (7, 8, 9)]
    cache.close()


def test_an_answer_given_again_takes_the_place_of_the_old_one_and_is_new(file: Path | None) -> None:
    cache = Cache(2, file)
    for name, text in ((b"a", "old"), (b"b", "b"), (b"a", "new"), (b"c", "c")):
        cache.put(name, text)
    assert [cache.get(name) for name in (b"a", b"b", b"c")] == ["new", None, "c"]
    cache.close()


@given(st.text(), st.binary(max_size=16))
def test_any_text_comes_back_as_it_was(text: str, name: bytes) -> None:
    cache = Cache(1)
    cache.put(name, text.encode("utf-8", "replace").decode())
    assert cache.get(name) == text.encode("utf-8", "replace").decode()
    cache.close()


def test_no_entries_is_no_cache(file: Path | None) -> None:
    cache = Cache(0, file)
    cache.put(b"a", "a")
    assert cache.get(b"a") is None
    cache.close()


def test_a_file_outlives_the_process(tmp_path: Path) -> None:
    for text in (None, "a"):
        cache = Cache(10, tmp_path / "answers.sqlite")
        assert cache.get(b"a") == text
        cache.put(b"a", "a")
        cache.close()


def modes(folder: Path) -> dict[str, str]:
    return {each.name: oct(each.stat().st_mode & 0o777) for each in folder.iterdir()}


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
def test_nobody_else_can_read_the_file_nor_those_beside_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        cache = Cache(10, tmp_path / "answers.sqlite")
        cache.put(b"a", "a")
        names = {"answers.sqlite", "answers.sqlite-wal", "answers.sqlite-shm"}
        assert modes(tmp_path) == dict.fromkeys(names, "0o600")
        # An earlier release made it for everybody; a group may share it by somebody's will.
        for name in names:
            (tmp_path / name).chmod(0o664)
        again = Cache(10, tmp_path / "answers.sqlite")
        assert again.get(b"a") == "a"
        assert modes(tmp_path) == dict.fromkeys(names, "0o660")
        again.close()
        cache.close()
    finally:
        os.umask(before)


WRITER = """
import sys
from hashlib import blake2b
from pathlib import Path
from ragweir.streams.runtime.processes import logs
from ragweir.streams.services.judge.cache import Cache
logs.configure()
cache = Cache(1_000, Path(sys.argv[1]))
for number in range(200):
    cache.put(f"{sys.argv[2]} {number}".encode(), "text")
cache.close()
"""


@pytest.mark.slow
def test_processes_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "answers.sqlite"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(file), name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for name in ("one", "two")
    ]
    assert [writer.communicate()[0] for writer in writers] == [b"", b""]
    cache = Cache(1_000, file)
    assert all(cache.get(f"{name} {number}".encode()) for name in ("one", "two") for number in range(200))
    cache.close()


def corrupt(file: Path) -> None:
    file.write_bytes(b"no database at all, and long enough to be read as the head of one" * 100)


def foreign(file: Path) -> None:
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE answers (something INTEGER)")
    other.close()


def absent(file: Path) -> None:
    file.mkdir()


@pytest.mark.parametrize("harm", [corrupt, foreign, absent])
def test_a_file_that_cannot_be_used_is_told_once_and_memory_takes_its_place(
    harm: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answers.sqlite"
    assert callable(harm)
    harm(file)
    cache = Cache(10, file)
    cache.put(b"a", "a")
    assert cache.get(b"a") == "a"
    cache.close()
    assert capsys.readouterr().out.count("the cache file cannot be used") == 1


@pytest.mark.slow
def test_a_file_that_another_keeps_locked_is_told_once_and_memory_takes_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "answers.sqlite"
    cache = Cache(10, file)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    cache.put(b"a", "a")
    cache.put(b"b", "b")
    assert cache.get(b"b") == "b"
    cache.close()
    other.close()
    assert capsys.readouterr().out.count("the cache file cannot be used") == 1


def test_who_is_asked_and_how_and_what_tell_answers_apart() -> None:
    ways = itertools.product(("a", "b"), (0, 0.5, None), ({}, {"seed": 7}, {"seed": 8}), (b"", b"x"))
    keys = {
        key(JudgeSettings(model=model, temperature=heat, extra_body=body), asked) for model, heat, body, asked in ways
    }
    assert len(keys) == 36


def test_answers_that_an_earlier_release_kept_are_found() -> None:
    """The key without the settings that came later is what it was."""
    assert key(JudgeSettings(model="m"), b"x") == blake2b(b"m\n0\nx", digest_size=16).digest()
    one, other = ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1})
    assert key(JudgeSettings(extra_body=one), b"x") == key(JudgeSettings(extra_body=other), b"x")
