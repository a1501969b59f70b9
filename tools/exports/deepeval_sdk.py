"""Datasets, test cases and test runs of DeepEval, as it saves them."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from deepeval.dataset import EvaluationDataset
from deepeval.evaluate.local_store import write_test_run
from deepeval.evaluate.types import TestResult
from deepeval.test_case import LLMTestCase, RetrievedContextData, ToolCall
from deepeval.test_run import TestRun
from deepeval.test_run.api import LLMApiTestCase

from tools.exports.questions import Question, questions


def _case(question: Question) -> LLMTestCase:
    number = question.number
    sourced = [RetrievedContextData(context=each.text, source=each.source) for each in question.documents]
    return LLMTestCase(
        input=question.text,
        actual_output=None if number in (13, 37) else question.answer,
        expected_output=question.reference,
        context=question.texts[:1],
        retrieval_context=None if number % 10 == 5 else sourced if number % 10 == 7 else question.texts,
        tools_called=[ToolCall(name="atlas", input_parameters={"name": question.reference}, output=question.texts)],
        expected_tools=[ToolCall(name="atlas")],
        completion_time=question.seconds,
        token_cost=0.00042,
        input_token_count=120 + number,
        output_token_count=9,
        name=f"question_{number}",
        tags=["faq"],
        metadata={"region": "eu"},
    )


def _result(case: LLMTestCase, number: int) -> TestResult:
    return TestResult(
        name=case.name,
        index=number,
        success=case.actual_output is not None,
        metrics_data=None,
        conversational=False,
        input=case.input,
        actual_output=case.actual_output,
        expected_output=case.expected_output,
        context=case.context,
        retrieval_context=None if case.retrieval_context is None else [str(each) for each in case.retrieval_context],
    )


def write(folder: Path) -> None:
    cases = [_case(question) for question in questions()]
    dataset = EvaluationDataset()
    for case in cases:
        dataset.add_test_case(case)
    for kind in ("json", "jsonl", "csv"):
        dataset.save_as(kind, str(folder), "dataset", include_test_cases=True)
    (folder / "cases.jsonl").write_text("".join(case.model_dump_json(by_alias=True) + "\n" for case in cases))
    results = [_result(case, number) for number, case in enumerate(cases)]
    (folder / "results.json").write_text(json.dumps([asdict(result) for result in results], indent=1))
    run = TestRun(identifier="example")
    for number, case in enumerate(cases[:40]):
        shown = case.model_dump(by_alias=True, exclude_none=True, include={*LLMApiTestCase.model_fields} - {"tags"})
        run.test_cases.append(LLMApiTestCase(**shown | {"order": number, "success": True}))
    with TemporaryDirectory() as temporary:
        saved = json.loads(write_test_run(Path(temporary), run).read_text())
    # The lines that `jq -c ".testCases[]"` makes of the one object in the file.
    (folder / "test_run.jsonl").write_text("".join(json.dumps(case) + "\n" for case in saved["testCases"]))
