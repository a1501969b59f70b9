"""Runs of LangSmith: `Run` as `Client.list_runs` returns it, dumped as JSON, as a table and as a bulk export."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
from langchain_core.documents import Document
from langchain_core.load import dumpd
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langsmith.schemas import Run

from tools.exports.questions import Question, questions


def _id(*parts: object) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, "/".join(map(str, parts)))


_PROJECT = _id("project")


def _inputs(question: Question) -> dict[str, Any]:
    """Return the inputs in one of the forms that chains, agents and applications of their own have."""
    forms: tuple[dict[str, Any], ...] = (
        {"question": question.text},
        {"input": question.text, "chat_history": []},
        {"query": question.text},
        {"messages": [dumpd(SystemMessage("Answer briefly.")), dumpd(HumanMessage(question.text))]},
        {"messages": [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": question.text}]},
        {"input": {"question": question.text, "language": "en"}},
    )
    return forms[question.number % len(forms)]


def _outputs(question: Question) -> dict[str, Any] | None:
    documents = [
        dumpd(Document(page_content=each.text, metadata={"source": each.source, "chunk_id": each.chunk}))
        for each in question.documents
    ]
    plain = [
        Document(page_content=each.text, metadata={"source": each.source, "score": each.score}).model_dump()
        for each in question.documents
    ]
    forms: tuple[dict[str, Any], ...] = (
        {"answer": question.answer, "context": plain},
        {"output": question.answer, "source_documents": documents},
        {"result": question.answer, "source_documents": plain},
        {"messages": [dumpd(HumanMessage(question.text)), dumpd(AIMessage(question.answer))], "documents": documents},
        {"output": dumpd(AIMessage(question.answer))},
        {"output": {"answer": question.answer, "sources": [each.source for each in question.documents]}},
    )
    return forms[question.number % len(forms)]


def _root(question: Question) -> Run:
    number = question.number
    failed, pending = number in (13, 37), number == 41
    return Run(
        id=_id("run", number),
        trace_id=_id("run", number),
        dotted_order=f"{question.started:%Y%m%dT%H%M%S%fZ}{_id('run', number)}",
        name="RetrievalQA",
        run_type="chain",
        start_time=question.started,
        end_time=None if pending else question.ended,
        first_token_time=question.retrieved + timedelta(seconds=0.1),
        status="error" if failed else "pending" if pending else "success",
        error="TimeoutError('the model did not answer')" if failed else None,
        inputs=_inputs(question),
        outputs=None if failed or pending else _outputs(question),
        extra={"metadata": {"thread_id": f"thread-{number // 3}", "revision_id": "v12", "ls_model_name": "gpt-4o"}},
        tags=["production"],
        session_id=_PROJECT,
        app_path=f"/o/example/projects/p/{_PROJECT}/r/{_id('run', number)}",
        prompt_tokens=120 + number,
        completion_tokens=9,
        total_tokens=129 + number,
        total_cost=Decimal("0.00042"),
        feedback_stats={"user_score": {"n": 1, "avg": 1.0}} if number % 4 == 0 else None,
    )


def _children(question: Question) -> list[Run]:
    """Return the runs of the retriever and of the model, which are rows of their own in an export."""
    root = _id("run", question.number)

    def child(kind: str, inputs: dict[str, Any], outputs: dict[str, Any], *, first: bool) -> Run:
        return Run(
            id=_id(kind, question.number),
            trace_id=root,
            parent_run_id=root,
            parent_run_ids=[root],
            name=kind.capitalize(),
            run_type=kind,
            start_time=question.started if first else question.retrieved,
            end_time=question.retrieved if first else question.ended,
            status="success",
            inputs=inputs,
            outputs=outputs,
            session_id=_PROJECT,
        )

    documents = [dumpd(Document(page_content=each.text)) for each in question.documents]
    message = [[dumpd(HumanMessage(question.text))]]
    answer = {"generations": [[{"text": question.answer, "message": dumpd(AIMessage(question.answer))}]]}
    return [
        child("retriever", {"query": question.text}, {"documents": documents}, first=True),
        child("llm", {"messages": message}, answer, first=False),
    ]


def write(folder: Path) -> None:
    everything = questions()
    roots = [_root(question) for question in everything]
    with (folder / "runs.jsonl").open("w") as file:
        file.writelines(run.model_dump_json(exclude_none=number % 2 == 1) + "\n" for number, run in enumerate(roots))
    # 20 traces with their child runs, as list_runs gives them without is_root.
    mixed = [run for question in everything[:20] for run in (_root(question), *_children(question))]
    with (folder / "runs_and_children.json").open("w") as file:
        json.dump([json.loads(run.model_dump_json()) for run in mixed], file, indent=1)
    # A trace with its child runs within it, as read_run(load_child_runs=True) gives it.
    nested = [_root(each).model_copy(update={"child_runs": _children(each)}) for each in everything[:10]]
    (folder / "traces.jsonl").write_text("".join(run.model_dump_json() + "\n" for run in nested))
    frame = pd.DataFrame([json.loads(run.model_dump_json()) for run in roots])
    frame.to_csv(folder / "runs.csv", index=False)
    # Bulk exports hold inputs, outputs and extra as JSON text.
    for column in ("inputs", "outputs", "extra", "feedback_stats"):
        frame[column] = [None if value is None else json.dumps(value) for value in frame[column]]
    frame["is_root"] = True
    for column in ("start_time", "end_time", "first_token_time"):
        frame[column] = pd.to_datetime(frame[column], format="ISO8601")
    frame.dropna(axis="columns", how="all").drop(columns="attachments").to_parquet(folder / "runs.parquet")
