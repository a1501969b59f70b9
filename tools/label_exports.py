"""Writes exports of labels with the SDKs of other tools, for the tests of the ready maps of labels.

It is run as a file, in an environment that has one of the packages and nothing of ragweir; no SDK opens a connection:

    python -m venv sdk && sdk/bin/pip install label-studio-sdk==2.1.2
    sdk/bin/python tools/label_exports.py label-studio tests/exports/labels

tests/exports/README.md has the packages. Ten answers of one trace each are labelled by two people, Ada and Bob. Ada
labels all of them, and calls every fourth answer unsupported; Bob labels the even ones, and disagrees about the sixth.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

_ANSWERS = 10
_NINE = datetime(2026, 10, 2, 9, tzinfo=UTC)
_RATERS = {"ada": "7d1f6f4e-0000-4000-8000-00000000000a", "bob": "7d1f6f4e-0000-4000-8000-00000000000b"}


class _Verdict(NamedTuple):
    number: int
    rater: str
    supported: bool

    @property
    def user(self) -> str:
        return _RATERS[self.rater]

    @property
    def time(self) -> datetime:
        return _NINE + timedelta(minutes=self.number, seconds=30 * (self.rater == "bob"))


def _verdicts() -> Iterator[_Verdict]:
    for number in range(_ANSWERS):
        yield _Verdict(number, "ada", number % 4 != 0)
        if number % 2 == 0:
            yield _Verdict(number, "bob", number % 4 != 0 and number != 6)


def _id(kind: str, number: int) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{number}")


def _trace(number: int) -> str:
    return _id("trace", number).hex


def _span(number: int) -> str:
    return _id("span", number).hex[:16]


def _label_studio(folder: Path) -> None:
    """Write tasks as the JSON export has them: regions of the SDK's controls, in its types of annotations and tasks."""
    from label_studio_sdk.label_interface import LabelInterface  # noqa: PLC0415
    from label_studio_sdk.types.annotation import Annotation  # noqa: PLC0415
    from label_studio_sdk.types.lse_task import LseTask  # noqa: PLC0415

    interface = LabelInterface(
        '<View><Text name="answer" value="$answer"/>'
        '<Choices name="supported" toName="answer"><Choice value="Yes"/><Choice value="No"/></Choices>'
        '<Rating name="clarity" toName="answer"/><TextArea name="note" toName="answer"/></View>'
    )
    tasks = []
    for number in range(_ANSWERS):
        annotations = []
        for place, verdict in enumerate(each for each in _verdicts() if each.number == number):
            given = {"supported": "Yes" if verdict.supported else "No", "clarity": 4, "note": "It says so."}
            regions = [interface.get_control(name).label(value)._dict() for name, value in given.items()]
            for region in regions:
                region["id"] = _id(region["from_name"], 10 * number + place).hex[:10]
            annotations.append(
                Annotation(
                    id=100 + 2 * number + place,
                    completed_by=1 if verdict.rater == "ada" else 2,
                    result=regions,
                    was_cancelled=False,
                    ground_truth=False,
                    created_at=verdict.time,
                    updated_at=verdict.time,
                    lead_time=12.5 + number,
                    task=number + 1,
                )
            )
        if number == 9:  # Bob skipped it.
            annotations.append(Annotation(id=199, completed_by=2, result=[], was_cancelled=True, created_at=_NINE))
        data = {"answer": f"Answer {number}.", "trace_id": _trace(number)}
        rows = [json.loads(each.json()) for each in annotations]
        tasks.append(json.loads(LseTask(id=number + 1, data=data, annotations=rows, predictions=[]).json()))
    _write(folder, "label-studio-sdk", "", json.dumps(tasks, indent=1))


def _scores() -> Iterator[dict[str, Any]]:
    """Yield the fields of scores that both versions of Langfuse's API have."""
    for place, verdict in enumerate(_verdicts()):
        shared = {
            "id": _id("score", place).hex,
            "environment": "production",
            "timestamp": verdict.time,
            "created_at": verdict.time,
            "updated_at": verdict.time,
            "author_user_id": verdict.user,
            "source": "ANNOTATION",
            "comment": "The passage says so.",
        }
        yield {**shared, "verdict": verdict, "name": "supported"}
        if place == 3:
            yield {**shared, "verdict": verdict, "name": "supported", "source": "EVAL", "author_user_id": None}
            yield {**shared, "verdict": verdict, "name": "supported", "source": "API", "author_user_id": None}


def _langfuse_v2(folder: Path) -> None:
    """Write a page of scores as `client.api.score_v_2.get` returns it."""
    from langfuse.api.resources.score_v_2.types import (  # noqa: PLC0415
        GetScoresResponse,
        GetScoresResponseData_Boolean,
        GetScoresResponseData_Categorical,
        GetScoresResponseData_Numeric,
    )
    from langfuse.api.resources.utils.resources.pagination.types.meta_response import MetaResponse  # noqa: PLC0415

    data: list[Any] = []
    for each in _scores():
        verdict = each.pop("verdict")
        observation = _span(verdict.number) if verdict.number % 2 else None
        target: dict[str, Any] = {"trace_id": _trace(verdict.number), "observation_id": observation, "metadata": {}}
        number, text = float(verdict.supported), str(verdict.supported)
        boolean = {"data_type": "BOOLEAN", "value": number, "string_value": text}
        data.append(GetScoresResponseData_Boolean(**each, **target, **boolean))
        if len(data) == 1:
            named, session = {**each, "name": "helpful"}, {**each, "session_id": "s-1", "metadata": {}}
            category = {"data_type": "CATEGORICAL", "value": 1, "string_value": "yes"}
            data.append(GetScoresResponseData_Categorical(**named, **target, **category))
            named |= {"name": "refused_rightly"}
            data.append(GetScoresResponseData_Numeric(**named, **target, data_type="NUMERIC", value=0))
            data.append(GetScoresResponseData_Boolean(**session, **boolean))
    page = GetScoresResponse(data=data, meta=MetaResponse(page=1, limit=50, total_items=len(data), total_pages=1))
    _write(folder, "langfuse", "", page.json())


def _langfuse_v3(folder: Path) -> None:
    """Write a page of scores as `client.api.scores.get_many(fields="details,subject,annotation")` returns it."""
    from langfuse.api.scores.types.get_scores_v3meta import GetScoresV3Meta  # noqa: PLC0415
    from langfuse.api.scores.types.get_scores_v3response import GetScoresV3Response  # noqa: PLC0415
    from langfuse.api.scores.types.score_subject_v3 import (  # noqa: PLC0415
        ScoreSubjectV3_Observation,
        ScoreSubjectV3_Session,
        ScoreSubjectV3_Trace,
    )
    from langfuse.api.scores.types.score_v3 import (  # noqa: PLC0415
        ScoreV3_Boolean,
        ScoreV3_Categorical,
        ScoreV3_Correction,
        ScoreV3_Numeric,
    )

    data: list[Any] = []
    for each in _scores():
        verdict = each.pop("verdict")
        trace, span = _trace(verdict.number), _span(verdict.number)
        seen: Any = ScoreSubjectV3_Trace(id=trace)
        if verdict.number % 2:
            seen = ScoreSubjectV3_Observation(id=span, trace_id=trace)
        target = {"subject": seen, "project_id": "example"}
        data.append(ScoreV3_Boolean(**each, **target, value=verdict.supported))
        if len(data) == 1:
            named = {**each, "name": "helpful"}
            data.append(ScoreV3_Categorical(**named, **target, value="yes"))
            named |= {"name": "refused_rightly"}
            data.append(ScoreV3_Numeric(**named, **target, value=0))
            data.append(ScoreV3_Correction(**{**each, "name": "output"}, **target, value="Vienna."))
            session = {**target, "subject": ScoreSubjectV3_Session(id="s-1")}
            data.append(ScoreV3_Boolean(**each, **session, value=verdict.supported))
    page = GetScoresV3Response(data=data, meta=GetScoresV3Meta(limit=100))
    _write(folder, "langfuse", "", page.json())


def _langsmith(folder: Path) -> None:
    """Write feedback as `Client.list_feedback` returns it."""
    from langsmith.schemas import Feedback, FeedbackSourceBase  # noqa: PLC0415

    lines = []
    for place, verdict in enumerate(_verdicts()):
        source = FeedbackSourceBase(type="app", user_id=verdict.user, user_name=verdict.rater.capitalize())
        shared: dict[str, Any] = {
            "run_id": _id("run", verdict.number),
            "trace_id": _id("run", verdict.number),
            "created_at": verdict.time,
            "modified_at": verdict.time,
            "session_id": _id("project", 0),
            "comment": "The passage says so.",
        }
        own: dict[str, Any] = {"score": verdict.supported}
        if verdict.number % 3 == 0:
            own = {"score": float(verdict.supported), "value": "Yes" if verdict.supported else "No"}
        lines.append(Feedback(id=_id("feedback", place), key="supported", feedback_source=source, **shared, **own))
        if place == 3:
            for kind in ("api", "model", "auto_eval"):
                machine = FeedbackSourceBase(type=kind, user_id=None)
                made = {"id": _id(kind, place), "key": "supported", "score": 0.0}
                lines.append(Feedback(**shared, **made, feedback_source=machine))
    _write(folder, "langsmith", "", "".join(each.model_dump_json() + "\n" for each in lines), "jsonl")


def _phoenix(folder: Path) -> None:
    """Write what `get_span_annotations` and `get_span_annotations_dataframe` return for a page of annotations."""
    import httpx  # noqa: PLC0415
    from phoenix.client import Client  # noqa: PLC0415
    from phoenix.client.__generated__ import v1  # noqa: PLC0415

    found: list[Any] = []
    for place, verdict in enumerate(_verdicts()):
        found.append(
            v1.SpanAnnotation(
                id=f"U3BhbkFubm90YXRpb246{place}",
                name="supported",
                annotator_kind="HUMAN",
                span_id=_span(verdict.number),
                result=v1.AnnotationResult(
                    label="yes" if verdict.supported else "no",
                    score=float(verdict.supported),
                    explanation="The passage says so.",
                ),
                metadata={},
                identifier="",
                created_at=verdict.time.isoformat(),
                updated_at=verdict.time.isoformat(),
                source="APP",
                user_id=verdict.rater,
            )
        )
        if verdict.number % 3 == 0:
            del found[-1]["result"]["label"]
        if place == 3:
            found += [{**found[0], "annotator_kind": kind, "user_id": None} for kind in ("LLM", "CODE")]
    page = v1.SpanAnnotationsResponseBody(data=found, next_cursor=None)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=page))
    client = Client(http_client=httpx.Client(transport=transport, base_url="http://phoenix"))
    asked: dict[str, Any] = {"span_ids": [_span(0)], "project_identifier": "default"}
    annotations = client.spans.get_span_annotations(**asked)
    _write(folder, "arize-phoenix-client", "", json.dumps(annotations, indent=1))
    frame = client.spans.get_span_annotations_dataframe(**asked)
    _write(folder, "arize-phoenix-client", "-frame", frame.reset_index().to_csv(index=False), "csv")


def _write(folder: Path, package: str, part: str, text: str, suffix: str = "json") -> None:
    (folder / f"{package}-{version(package)}{part}.{suffix}").write_text(text, encoding="utf-8")


_WRITERS: dict[str, Callable[[Path], None]] = {
    "label-studio": _label_studio,
    "langfuse-v2": _langfuse_v2,
    "langfuse-v3": _langfuse_v3,
    "langsmith": _langsmith,
    "phoenix": _phoenix,
}

if __name__ == "__main__":
    _WRITERS[sys.argv[1]](Path(sys.argv[2]))
