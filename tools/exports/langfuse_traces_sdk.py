"""Traces of Langfuse, as its API gave them up to version 3 and its user interface exports them."""

from __future__ import annotations

import csv
import json
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from langfuse.api.resources.commons.types.model_usage_unit import ModelUsageUnit
from langfuse.api.resources.commons.types.observation_level import ObservationLevel
from langfuse.api.resources.commons.types.observations_view import ObservationsView
from langfuse.api.resources.commons.types.trace import Trace
from langfuse.api.resources.commons.types.trace_with_details import TraceWithDetails
from langfuse.api.resources.commons.types.trace_with_full_details import TraceWithFullDetails
from langfuse.api.resources.commons.types.usage import Usage

from tools.exports.langfuse_forms import inputs, outputs
from tools.exports.questions import Question, questions


def _id(*parts: object) -> str:
    return uuid.uuid5(uuid.NAMESPACE_URL, "/".join(map(str, parts))).hex


def _about(question: Question) -> dict[str, Any]:
    number = question.number
    return {
        "id": _id("trace", number),
        "timestamp": question.started,
        "name": "answer",
        "input": inputs(question),
        "output": None if number in (13, 37) else outputs(question),
        "sessionId": f"session-{number // 3}",
        "release": "2026.10",
        "version": "v12",
        "userId": f"user-{number % 9}",
        "metadata": {"region": "eu"},
        "tags": ["faq"],
        "public": False,
        "environment": "production",
    }


def _observations(question: Question) -> list[ObservationsView]:
    def child(kind: str, given: Any, found: Any, *, first: bool) -> ObservationsView:
        return ObservationsView(
            id=_id(kind, question.number)[:16],
            traceId=_id("trace", question.number),
            type=kind,
            name=kind.lower(),
            startTime=question.started if first else question.retrieved,
            endTime=question.retrieved if first else question.ended,
            completionStartTime=None if first else question.retrieved + timedelta(seconds=0.1),
            model=None if first else "gpt-4o",
            modelParameters={},
            input=given,
            output=found,
            version=None,
            metadata={},
            usage=Usage(
                input=0 if first else 120,
                output=0 if first else 9,
                total=0 if first else 129,
                unit=ModelUsageUnit.TOKENS,
            ),
            level=ObservationLevel.DEFAULT,
            usageDetails={} if first else {"input": 120, "output": 9, "total": 129},
            costDetails={},
            environment="production",
            latency=question.seconds / 4 if first else question.seconds * 3 / 4,
        )

    documents = [{"page_content": each.text, "metadata": {"source": each.source}} for each in question.documents]
    message = [{"role": "user", "content": question.text}]
    return [
        child("RETRIEVER", question.text, documents, first=True),
        child("GENERATION", message, {"role": "assistant", "content": question.answer}, first=False),
    ]


def write(folder: Path) -> None:
    everything = questions()
    with (folder / "traces.jsonl").open("w") as file:
        file.writelines(Trace(**_about(question)).json() + "\n" for question in everything)
    detailed = [
        TraceWithFullDetails(
            **_about(question),
            htmlPath=f"/project/example/traces/{_id('trace', question.number)}",
            latency=question.seconds,
            totalCost=0.00042,
            observations=_observations(question),
            scores=[],
        )
        for question in everything
    ]
    (folder / "detailed.json").write_text(json.dumps([json.loads(trace.json()) for trace in detailed], indent=1))
    # Lists of traces have the ids of their observations.
    with (folder / "listed.jsonl").open("w") as file:
        for question in everything:
            ids = [each.id for each in _observations(question)]
            path = f"/project/example/traces/{_id('trace', question.number)}"
            details = {"htmlPath": path, "latency": question.seconds, "totalCost": 0.00042}
            file.write(TraceWithDetails(**_about(question), **details, observations=ids, scores=[]).json() + "\n")
    # Observations alone, as their table is exported. All are parts of traces.
    with (folder / "observations.jsonl").open("w") as file:
        for question in everything[:20]:
            file.writelines(each.json() + "\n" for each in _observations(question))
    # Tables hold values that are not text as JSON.
    rows = [json.loads(Trace(**_about(question)).json()) for question in everything]
    with (folder / "traces.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        for row in rows:
            writer.writerow(
                {
                    name: each if each is None or isinstance(each, str) else json.dumps(each)
                    for name, each in row.items()
                }
            )
