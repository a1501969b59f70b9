"""Measure the grounding metrics on RAGTruth's questions and answers, from your own download of the set.

Run from the project's root: `python -m tools.ragtruth FOLDER`, where `response.jsonl` and `source_info.jsonl` of
the repository ParticleMedia/RAGTruth are in the folder. Its terms allow measuring, not shipping. Needs numpy.

It prints the AUROC of each metric (the probability that a bad answer scores worse than a good one) over all answers and
within the answers of each system, with a bootstrap interval over questions. Bad is an answer in which people marked at
least one hallucination. Answers for which a metric is null are excluded from its line.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ragweir.metrics.view import View
from ragweir.schemas.interaction import Interaction
from tools.labelled_answers import Labelled
from tools.measure_grounding import METRICS, metric_line

_PASSAGE = re.compile(r"^passage \d+:", re.MULTILINE)


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def answers(folder: Path) -> dict[str, list[Labelled]]:
    """Return the answers of each system.

    Raises:
        OSError: if a file cannot be read.
    """
    sources = {row["source_id"]: row["source_info"] for row in _rows(folder / "source_info.jsonl") if _asks(row)}
    found: defaultdict[str, list[Labelled]] = defaultdict(list)
    for row in _rows(folder / "response.jsonl"):
        if (source := sources.get(row["source_id"])) is not None:
            passages = [text.strip() for text in _PASSAGE.split(source["passages"]) if text.strip()]
            event = Interaction.model_validate(
                {
                    "event_id": row["id"],
                    "query": source["question"],
                    "response": row["response"],
                    "contexts": [{"text": text} for text in passages],
                }
            )
            found[row["model"]].append(Labelled(View(event), bool(row["labels"]), row["source_id"]))
    return dict(found)


def _asks(row: dict[str, Any]) -> bool:
    return bool(row["task_type"] == "QA")


def report(folder: Path) -> Iterator[str]:
    """Yield the lines of the report."""
    systems = answers(folder)
    every = [answer for own in systems.values() for answer in own]
    groups: list[tuple[str, Sequence[Labelled]]] = [("all systems", every), *sorted(systems.items())]
    for name, own in groups:
        yield f"{name}: {len(own)} answers, {sum(answer.bad for answer in own)} of them bad"
        yield f"{'':<38}{'answers':>8}{'AUROC':>8}   {'95 % interval':<14}{'at 10 %':>9}{'at 20 %':>9}"
        yield from (metric_line(metric, own) for metric in METRICS)
        yield ""


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path, help="folder with response.jsonl and source_info.jsonl")
    for line in report(parser.parse_args().folder):
        print(line)


if __name__ == "__main__":
    main()
