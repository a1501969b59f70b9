"""The recipe for RAGTruth, on a made-up file of its form: the set itself is not part of the project."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools import ragtruth

SOURCES: list[dict[str, Any]] = [
    {
        "source_id": f"{number}",
        "task_type": "QA",
        "source": "MARCO",
        "source_info": {
            "question": f"Where is bridge {number}?",
            "passages": f"passage 1:Bridge {number} is in Mostar.\n\npassage 2:It was rebuilt in 2004.\n\n",
        },
    }
    for number in range(12)
] + [{"source_id": "s", "task_type": "Summary", "source": "CNN", "source_info": "A text."}]


def response(number: int, model: str, source: str, *, bad: bool) -> dict[str, Any]:
    invented = "It opened in 1871 under Anna Keller."
    return {
        "id": f"{number}",
        "source_id": source,
        "model": model,
        "labels": [{"start": 0, "end": 3, "text": "It", "label_type": "Evident Baseless Info"}] if bad else [],
        "response": invented if bad else f"Bridge {source} is in Mostar.",
    }


@pytest.mark.heavy
def test_the_answers_of_each_system_are_measured(tmp_path: Path) -> None:
    """Bad answers are those with marks; other tasks than questions are left out."""
    answers = [response(number, f"m{number % 2}", f"{number // 2}", bad=number % 3 == 0) for number in range(24)] + [
        response(99, "m0", "s", bad=True)
    ]
    for name, rows in (("source_info", SOURCES), ("response", answers)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = ragtruth.answers(tmp_path)
    assert {name: len(own) for name, own in found.items()} == {"m0": 12, "m1": 12}
    assert [context.text for context in found["m0"][0].view.contexts][1:] == ["It was rebuilt in 2004."]
    lines = list(ragtruth.report(tmp_path))
    assert [line for line in lines if "of them bad" in line] == [
        "all systems: 24 answers, 8 of them bad",
        "m0: 12 answers, 4 of them bad",
        "m1: 12 answers, 4 of them bad",
    ]
    risks = [line.split()[:3] for line in lines if line.startswith("unsupported_risk")]
    assert risks == [["unsupported_risk", "24", "1.000"], *[["unsupported_risk", "12", "1.000"]] * 2]
