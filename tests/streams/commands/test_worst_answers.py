"""The end of `ragweir score`: the three worst answers with their evidence, and the command that shows the first."""

import gzip
import re
import shlex
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import ragweir

EXPORTS = Path(__file__).parents[2] / "exports"
HEAD = "highest unsupported_risk, without refusals and empty answers:"
PASSAGES = [{"text": "Call us at noon."}, {"text": "Return shoes\nwithin 30 days."}]
MADE_UP = "Our founder Zelda owns nine castles in Wales and Peru."


def row(event_id: str, response: str, query: str = "How long may I return shoes?") -> dict[str, Any]:
    return {"event_id": event_id, "query": query, "response": response, "contexts": PASSAGES, "ended_at": 1_795_255_200}


ROWS = [
    row("fine", "Return shoes within 30 days."),
    row("partly", "Return shoes within 90 days, with a voucher for the trouble."),
    row("refused", "I am sorry, but the documents do not mention the castles of Zelda."),
    row("empty", ""),
    row("invented", MADE_UP),
    row("invented again", MADE_UP),
    row("late", MADE_UP, "Who is\n the \x1b[2J founder?"),
]


def written(folder: Path, rows: list[dict[str, Any]], name: str = "answers.jsonl") -> Path:
    (folder / name).write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in rows))
    return folder / name


def said(*words: str | Path, folder: Path, text: bytes = b"") -> list[str]:
    """The lines about the worst answers, and the one that sums up."""
    done = ragweir("score", *words, folder=folder, text=text)
    lines: list[str] = done.stderr.decode().splitlines()
    assert lines.count(HEAD) == 1, lines
    assert all(line.isprintable() for line in lines)
    return lines[lines.index(HEAD) :]


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_three_worst_answers_are_named_with_their_evidence(workers: str, tmp_path: Path) -> None:
    """Worst first, the first of equal ones before the others; refusals and empty answers are none of them."""
    written(tmp_path, ROWS)
    head, *lines, command, summary = said("answers.jsonl", "--workers", workers, "--out", "o.jsonl", folder=tmp_path)
    named = [line for line in lines if re.match(r"  \d", line)]
    risks = [float(line.split()[0]) for line in named]
    assert risks == sorted(risks, reverse=True)
    assert [line.partition("  line ")[2] for line in named] == [
        "5, invented: How long may I return shoes?",
        "6, invented again: How long may I return shoes?",
        "7, late: Who is the \ufffd[2J founder?",
    ]
    assert lines[1:3] == [
        "         in no passage: founder, Zelda, owns, nine, castles, Wales, Peru",
        "         no passage shares a word with its weakest sentence",
    ]
    assert (head, command) == (HEAD, "  ragweir explain invented --file o.jsonl")
    assert summary.startswith("7 scored")


@pytest.mark.slow
def test_the_nearest_passage_is_that_of_the_weakest_sentence(tmp_path: Path) -> None:
    written(tmp_path, ROWS[:3])
    lines = said("answers.jsonl", folder=tmp_path)
    assert lines[1].endswith("  line 2, partly: How long may I return shoes?")
    assert lines[2:4] == [
        "         in no passage: 90, voucher, trouble",
        "         nearest passage, 2: Return shoes within 30 days.",
    ]
    assert lines[4].endswith("line 1, fine: How long may I return shoes?"), "the refusal is left out"
    assert lines[5:] == ["3 scored"], "without --out there is no file to explain an event of"


@pytest.mark.heavy
def test_the_command_shows_the_answer_wherever_the_files_are(tmp_path: Path) -> None:
    """The files of a folder, an id like an option, and evaluations in another folder: as it is printed, it runs."""
    rows, away = tmp_path / "my rows", tmp_path / "away"
    rows.mkdir()
    away.mkdir()
    written(rows, ROWS[:2], "a.jsonl")
    written(rows, [row("-x", MADE_UP)], "b.jsonl")
    for name in ("o.jsonl", "away/o.jsonl"):
        _, first, *_, command, summary = said("my rows", "--out", name, folder=tmp_path)
        assert first.endswith("b.jsonl, line 1, -x: How long may I return shoes?")
        assert summary == "3 scored"
        words = shlex.split(command)
        assert words[:2] == ["ragweir", "explain"]
        assert MADE_UP in ragweir(*words[1:], folder=tmp_path).stdout.decode()
    done = ragweir("score", "-", "--out", "o.jsonl", folder=tmp_path, text=(rows / "b.jsonl").read_bytes())
    assert done.stderr.decode().splitlines()[-2] == "  ragweir explain --file o.jsonl -- -x", "a pipe is not read again"


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["ragas-0.4.3/dataset.jsonl", "deepeval-4.3.1/cases.jsonl.gz"])
def test_the_row_is_named_in_place_of_a_hash(name: str, tmp_path: Path) -> None:
    """A map that makes ids of the contents: the command names the row, which tells a person more."""
    data = (EXPORTS / name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    changed = re.sub(rb"The capital is (Brussels|Vienna)", b"The capital is Narnia", data)
    (tmp_path / "cases.jsonl").write_bytes(changed)
    product = name.partition("-")[0]
    _, first, words, passage, *_, command, _ = said(
        "cases.jsonl", "--map", product, "--out", "o.jsonl", folder=tmp_path
    )
    found = re.fullmatch(r"  0\.\d+  line (\d+): What is the capital of (Belgium|Austria)\?", first)
    assert found
    assert words.strip() == "in no passage: Narnia"
    assert re.fullmatch(r" +nearest passage, 1: (Brussels|Vienna) is the capital of .*", passage)
    assert command == f"  ragweir explain {found[1]} --file o.jsonl --map {product}"
    assert "The capital is Narnia" in ragweir(*shlex.split(command)[1:], folder=tmp_path).stdout.decode()
