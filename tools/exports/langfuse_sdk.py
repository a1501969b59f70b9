"""Observations of Langfuse, as its API gives them in pages and its scheduled exports write them in lines."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

from langfuse.api.commons.types.observation_level import ObservationLevel
from langfuse.api.commons.types.observation_v2 import ObservationV2
from langfuse.api.observations.types.observations_v2meta import ObservationsV2Meta
from langfuse.api.observations.types.observations_v2response import ObservationsV2Response

from tools.exports.langfuse_forms import inputs, outputs
from tools.exports.questions import Question, questions


def _id(*parts: object) -> str:
    return uuid.uuid5(uuid.NAMESPACE_URL, "/".join(map(str, parts))).hex[:16]


def _root(question: Question) -> ObservationV2:
    number = question.number
    failed = number in (13, 37)
    return ObservationV2(
        id=_id("root", number),
        trace_id=_id("trace", number) * 2,
        start_time=question.started,
        end_time=question.ended,
        project_id="example",
        parent_observation_id=None,
        type="SPAN",
        is_root_observation=True,
        name="answer",
        level=ObservationLevel.ERROR if failed else ObservationLevel.DEFAULT,
        status_message="TimeoutError: the model did not answer" if failed else None,
        version="v12",
        environment="production",
        user_id=f"user-{number % 9}",
        session_id=f"session-{number // 3}",
        completion_start_time=question.retrieved + timedelta(seconds=0.1),
        input=inputs(question),
        output=None if failed else outputs(question),
        metadata={"region": "eu"},
        latency=question.seconds,
        trace_name="answer",
        tags=["faq"],
        release="2026.10",
        total_cost=0.00042,
        usage_details={"input": 120 + number, "output": 9, "total": 129 + number},
    )


def _children(question: Question) -> list[ObservationV2]:
    def child(kind: str, given: Any, found: Any, *, first: bool) -> ObservationV2:
        return ObservationV2(
            id=_id(kind, question.number),
            trace_id=_id("trace", question.number) * 2,
            start_time=question.started if first else question.retrieved,
            end_time=question.retrieved if first else question.ended,
            project_id="example",
            parent_observation_id=_id("root", question.number),
            type=kind,
            is_root_observation=False,
            name=kind.lower(),
            level=ObservationLevel.DEFAULT,
            input=given,
            output=found,
            model=None if first else "gpt-4o",
            environment="production",
        )

    message = [{"role": "user", "content": question.text}]
    return [
        child("RETRIEVER", question.text, question.texts, first=True),
        child("GENERATION", message, {"role": "assistant", "content": question.answer}, first=False),
    ]


def write(folder: Path) -> None:
    everything = questions()
    roots = [_root(question) for question in everything]
    with (folder / "observations.jsonl").open("w") as file:
        for question in everything:
            for each in (_root(question), *_children(question)):
                file.write(each.json() + "\n")
    meta = ObservationsV2Meta(cursor=None)
    page = ObservationsV2Response(data=roots, meta=meta)
    (folder / "roots.json").write_text(json.dumps(json.loads(page.json())["data"], indent=1))
