"""`ragweir score` on files of every kind: folders, events without times, what is rejected, and what would mend it."""

import gzip
import os
from pathlib import Path

import orjson
import pytest
from commands import ragweir, told
from poison import GOOD, event

TIMELESS = {name: value for name, value in GOOD.items() if name != "ended_at"}
FOREIGN = [{"id": f"x{number}", "question": "Who?", "answer": "Ada.", "n": 1} for number in range(30)]


def lines_of(rows: list[dict[str, object]]) -> bytes:
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


def flagged(output: bytes) -> dict[str, str]:
    """The times of events that were given one, by id."""
    found = map(orjson.loads, output.splitlines())
    return {each["event_id"]: each["event_time"] for each in found if "time_defaulted" in each["flags"]}


@pytest.mark.slow
def test_a_folder_is_scored_by_name_and_the_rest_of_it_is_named(tmp_path: Path) -> None:
    """Each event says its file and place; a file that is broken does not stop the others, and the status tells."""
    (tmp_path / "b.json").write_bytes(b"[" + event(event_id="b1") + b",\n" + event(event_id="b2") + b"]")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(event(event_id="a1") + b"\nbad\n"))
    (tmp_path / "notes.txt").write_text("nothing")
    done = ragweir("score", tmp_path)
    sources = [orjson.loads(line)["source"] for line in done.stdout.splitlines()]
    assert [(each["topic"], each["offset"]) for each in sources] == [("a.jsonl.gz", 1), ("b.json", 1), ("b.json", 2)]
    left_out, bad, read, summary = done.stderr.decode().splitlines()
    assert left_out == "left out, since they are no data files: notes.txt"
    assert bad.startswith("a.jsonl.gz, line 2: not JSON")
    assert read == "read 2 files: JSON lines (gzip) 1, JSON 1"
    assert summary == "3 scored, 1 rejected"
    (tmp_path / "aa.csv").write_text("event_id,query,response\n1,q,r\n2,q\n")
    done = ragweir("score", tmp_path)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 4
    *_, summary, error = done.stderr.decode().splitlines()
    assert summary.startswith("4 scored, 1 rejected")
    assert error.startswith("ragweir: aa.csv: row 2 (line 3) has 2 cells and the header 3")


@pytest.mark.slow
def test_events_without_a_time_get_one_and_are_flagged(tmp_path: Path) -> None:
    """That of the option, or of the file; an event with a time keeps it."""
    file = tmp_path / "file.jsonl"
    file.write_bytes(lines_of([TIMELESS | {"event_id": "without"}, GOOD | {"event_id": "with"}]))
    os.utime(file, (1_764_000_000, 1_764_000_000))
    done = ragweir("score", file)
    assert flagged(done.stdout) == {"without": "2025-11-24T16:00:00Z"}
    assert done.stderr.decode().splitlines() == [
        "1 without a time got that of their file",
        "2 scored; repaired: time_defaulted 1",
    ]
    for time in ("2026-11-01T00:00:00Z", "1793491200", "1793491200000"):
        done = ragweir("score", "-", "--default-time", time, text=file.read_bytes())
        assert flagged(done.stdout) == {"without": "2026-11-01T00:00:00Z"}
        assert done.stderr.startswith(b"1 without a time got --default-time, 2026-11-01T00:00:00+00:00\n")


@pytest.mark.heavy
def test_windows_need_times_or_the_option(tmp_path: Path) -> None:
    """An event without a time is told before anything is written, or, far down, where it is found."""
    file, out, windows = tmp_path / "file.jsonl", tmp_path / "out.jsonl", tmp_path / "windows.jsonl"
    command = ("score", file, "--out", out, "--windows", windows)
    file.write_bytes(lines_of([GOOD, TIMELESS]))
    done = ragweir(*command)
    assert told(done).startswith("ragweir: line 2 of file.jsonl has no time, which --windows needs: give")
    assert done.returncode == 2
    assert not out.exists()
    file.write_bytes(lines_of([*(GOOD | {"event_id": number} for number in range(150)), TIMELESS]))
    done = ragweir(*command)
    assert told(done).startswith("ragweir: line 151 has no time")
    assert done.returncode == 1
    done = ragweir(*command, "--default-time", "2026-11-01")
    assert done.returncode == 0
    starts = {orjson.loads(line)["start"][:10] for line in windows.read_bytes().splitlines()}
    assert starts == {"2026-11-01", "2026-11-21"}


@pytest.mark.slow
def test_rejected_events_are_grouped_and_a_map_is_proposed_that_reads_them(tmp_path: Path) -> None:
    """Few lines whatever the file is; the proposed map, saved as it is printed, reads every event."""
    file, rejected = tmp_path / "file.jsonl", tmp_path / "rejected.jsonl"
    file.write_bytes(lines_of(FOREIGN) + b"bad\n" * 3)
    done = ragweir("score", file, "--rejected", rejected)
    assert done.returncode == 1
    said = done.stderr.decode().splitlines()
    missing = "event_id: missing; query: missing; response: missing"
    assert said[:4] == [*(f"line {number}: {missing}" for number in (1, 2, 3)), "33 rejected, by reason:"]
    assert said[4] == f"       30  {missing} (first: line 1)"
    assert said[5].startswith("        3  not JSON: ")
    assert "This map reads 30 of 30 sampled ones" in said[6]
    assert said[-1] == "0 scored, 33 rejected"
    proposed = [line.strip() for line in said[7:-1]]
    (tmp_path / "map.toml").write_text("\n".join(proposed))
    assert len(ragweir("score", file, "--map", tmp_path / "map.toml").stdout.splitlines()) == 30
    written = [orjson.loads(line) for line in rejected.read_bytes().splitlines()]
    assert len(written) == 33
    assert orjson.loads(written[29]["value"]) == FOREIGN[29]
    assert (written[32]["error_class"], written[32]["source_offset"], written[32]["value"]) == ("not_json", 33, "bad")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ('query = "question"', ["These lines of a map may read them:", '  response = "answer"']),
        ('query = "question"\nresponse = "answer"\nmodel = "nn"', ["the map, model: nothing is at nn"]),
        ('query = "qestion"\nresponse = "answer"', ['  query = "question"', "nearest path that exists is question"]),
    ],
    ids=["a wrong response", "a path without values", "a misspelt path"],
)
def test_what_is_wrong_in_a_map_is_told_with_what_would_mend_it(rules: str, said: list[str], tmp_path: Path) -> None:
    """Lines for the fields that no event has, and each path that led to nothing."""
    (tmp_path / "file.jsonl").write_bytes(lines_of(FOREIGN))
    response = "" if "response" in rules else 'response = "none"\n'
    (tmp_path / "map.toml").write_text(f'event_id = "id"\n{response}{rules}\n')
    error = ragweir("score", tmp_path / "file.jsonl", "--map", tmp_path / "map.toml").stderr.decode()
    for line in said:
        assert line in error


@pytest.mark.heavy
def test_a_field_that_is_empty_in_one_event_is_no_matter_of_the_map(tmp_path: Path) -> None:
    (tmp_path / "file.csv").write_text("event_id,query,response\n1,q,r\n2,q,\n")
    done = ragweir("score", tmp_path / "file.csv", "--default-time", "2026-11-01")
    assert done.stderr.decode().splitlines()[:2] == ["row 2: response: missing", "read as CSV"]
    (tmp_path / "map.toml").write_text('event_id = "event_id"\nquery = "query"\nresponse = "response"\n')
    done = ragweir("score", tmp_path / "file.csv", "--map", tmp_path / "map.toml", "--default-time", "2026-11-01")
    assert done.stderr.decode().splitlines()[:2] == ["row 2: response (from response): missing", "read as CSV"]


@pytest.mark.slow
def test_names_of_fields_cannot_control_a_terminal(tmp_path: Path) -> None:
    """Proposals and paths show names of the file, which are foreign text."""
    (tmp_path / "file.jsonl").write_bytes(lines_of([{"\x1b[2Jid": 1, "a\u202eb": "x"}] * 9))
    error = ragweir("score", tmp_path / "file.jsonl").stderr.decode()
    assert "Fields that a map (--map) can name" in error
    assert all(character.isprintable() or character == "\n" for character in error)


@pytest.mark.heavy
def test_results_are_replaced_only_if_something_is_scored(tmp_path: Path) -> None:
    """A wrong file or map does not cost the evaluations and windows of before; a shorter result leaves no rest."""
    file, out, windows = (tmp_path / name for name in ("file.jsonl", "out.jsonl", "windows.jsonl"))
    command = ("score", file, "--out", out, "--windows", windows)
    file.write_bytes(
        lines_of([GOOD | {"event_id": number, "ended_at": 1_795_255_200 + 60 * number} for number in (1, 2)])
    )
    assert ragweir(*command).returncode == 0
    kept = out.read_bytes(), windows.read_bytes()
    for content in (b"", b"bad\n", lines_of(FOREIGN), b"[{"):
        file.write_bytes(content)
        assert ragweir(*command).returncode == 1
        assert (out.read_bytes(), windows.read_bytes()) == kept
    file.write_bytes(lines_of([GOOD]))
    assert ragweir(*command).returncode == 0
    assert [orjson.loads(line)["event_id"] for line in out.read_bytes().splitlines()] == [GOOD["event_id"]]
    assert len(windows.read_bytes()) < len(kept[1])
    assert ragweir("score", file, "--out", "/dev/stdout").stdout == out.read_bytes(), "a pipe is written to"
