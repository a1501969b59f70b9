"""`ragweir dataset` on files: from labels and scores to the files of a regression set."""

from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from ragweir.streams.analysis.dataset.dataset_files import FORMATS
from ragweir.streams.commands.app import app


def run(*words: object) -> tuple[int, str]:
    """Run a command in this process; return its exit status and what it says."""
    done = CliRunner().invoke(app, [str(each) for each in words])
    return done.exit_code, " ".join(done.stderr.split()) + repr(done.exception or "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve scored answers in a foreign form, of which the last has no time, and three labels."""
    events = [
        {
            "id": f"e{n}",
            "question": f"Who is number {n}?",
            "answer": ("Zoe from Mars.", "Ada.")[n % 2],
            "docs": ["Ada."],
        }
        | ({"at": f"2026-11-{10 + n}T00:00:00Z"} if n < 11 else {})
        for n in range(12)
    ]
    (tmp_path / "answers.jsonl").write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in events))
    (tmp_path / "map.toml").write_text(
        'event_id = "id"\nquery = "question"\nresponse = "answer"\n"contexts[].text" = "docs[]"\nended_at = "at"\n'
    )
    (tmp_path / "votes.csv").write_text("event_id,value,rater\ne1,no,ben\ne2,no,ben\ne4,yes,ben\n")
    read = ("--map", tmp_path / "map.toml")
    assert run("score", tmp_path / "answers.jsonl", *read, "--out", tmp_path / "scores.jsonl")[0] == 0
    assert run("labels", "import", tmp_path / "votes.csv", "--out", tmp_path / "labels.jsonl")[0] == 0
    return tmp_path


def dataset(folder: Path, *words: object) -> tuple[int, str]:
    return run(
        "dataset", folder / "scores.jsonl", "--events", folder / "answers.jsonl", "--map", folder / "map.toml",
        "--out", folder / "set", *words,
    )  # fmt: skip


def ids(folder: Path) -> list[str]:
    lines = (folder / "set/dataset.jsonl").read_bytes().splitlines()
    return [orjson.loads(line)["event_id"] for line in lines]


@pytest.mark.slow
def test_what_people_call_bad_is_written_for_all_tools(folder: Path) -> None:
    status, said = dataset(folder, "--labels", folder / "labels.jsonl")
    assert status == 0, said
    assert "2 questions written to" in said
    assert ids(folder) == ["e2", "e1"]
    assert {each.name for each in (folder / "set").iterdir()} == set(FORMATS)
    assert all(each.stat().st_mode & 0o077 == 0 for each in (folder / "set").iterdir())
    status, said = run("score", folder / "set/dataset.jsonl", "--out", folder / "again.jsonl")
    assert (status, "2 scored" in said) == (0, True), said
    before, after = (
        {row["event_id"]: row["scores"] for row in map(orjson.loads, (folder / name).read_bytes().splitlines())}
        for name in ("scores.jsonl", "again.jsonl")
    )
    assert after == {name: before[name] for name in ("e1", "e2")}


@pytest.mark.slow
def test_scores_and_times_choose(folder: Path) -> None:
    status, said = dataset(folder, "--where", "context_support < 0.5", "--from", "2026-11-15")
    assert status == 0, said
    assert ids(folder) == ["e10", "e8", "e6"]
    status, said = dataset(folder, "--labels", folder / "labels.jsonl", "--where", "supported = no", "--worst", 1)
    assert status == 0, said
    assert ids(folder)[:2] == ["e2", "e1"]
    assert len(ids(folder)) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "no labels are given"),
        (("--where", "supported = no"), "no labels are given"),
        (("--where", "context_support < 0"), "none of the 12 evaluations is taken"),
        (("--where", "context_support <"), "is no condition"),
        (("--metric", "context_support", "--where", "context_support < 1"), "--metric is for --worst"),
        (("--worst", "1", "--metric", "refusal_corect"), "there is no metric refusal_corect"),
        (("--worst", "1", "--from", "2027-01-01"), "holds no evaluation of an event of that time"),
    ],
)
def test_what_cannot_be_taken_is_a_sentence_and_nothing_is_written(
    folder: Path, words: tuple[str, ...], why: str
) -> None:
    status, said = dataset(folder, *words)
    assert status != 0
    assert why in said
    assert not (folder / "set").exists()


@pytest.mark.slow
def test_an_input_is_never_overwritten(folder: Path) -> None:
    before = (folder / "answers.jsonl").read_bytes()
    (folder / "set").mkdir()
    (folder / "set/dataset.jsonl").write_bytes(before)
    read = ("--events", folder / "set/dataset.jsonl", "--worst", 1)
    status, said = run("dataset", folder / "scores.jsonl", *read, "--out", folder / "set")
    assert status == 2
    assert "named twice" in said or "overwritten" in said
    assert (folder / "set/dataset.jsonl").read_bytes() == before
    assert run("dataset", folder / "scores.jsonl", "--worst", 1, "--out", folder / "set")[0] == 2
