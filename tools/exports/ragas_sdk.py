"""Datasets and results of ragas, as its `EvaluationDataset` and `EvaluationResult` write them."""

from __future__ import annotations

from pathlib import Path

from ragas import EvaluationDataset, SingleTurnSample
from ragas.callbacks import ChainRun
from ragas.dataset_schema import EvaluationResult

from tools.exports.questions import Question, questions


def _sample(question: Question) -> SingleTurnSample:
    """Return a sample; in every tenth something is missing, as in data that people collect."""
    kind = question.number % 10
    return SingleTurnSample(
        user_input=question.text,
        response="" if kind == 3 else question.answer,
        retrieved_contexts=[] if kind == 5 else question.texts,
        retrieved_context_ids=[] if kind == 5 else [document.chunk for document in question.documents],
        reference=question.reference,
        reference_contexts=question.texts[:1],
    )


def write(folder: Path) -> None:
    samples = [_sample(question) for question in questions()]
    dataset = EvaluationDataset(samples=samples)
    dataset.to_jsonl(folder / "dataset.jsonl")
    dataset.to_csv(folder / "dataset.csv")
    scores = [{"faithfulness": 1.0 if each.response else float("nan"), "answer_relevancy": 0.5} for each in samples]
    run = ChainRun(run_id="run", parent_run_id=None, name="ragas evaluation", inputs={}, metadata={})
    results = EvaluationResult(scores=scores, dataset=dataset, ragas_traces={"run": run}).to_pandas()
    results.to_parquet(folder / "results.parquet")
    results.to_csv(folder / "results.csv", index=False)
    results.to_json(folder / "results.json", orient="records")
    # Without contexts: what people evaluate answers alone with.
    plain = [SingleTurnSample(user_input=each.user_input, response=each.response) for each in samples]
    EvaluationDataset(samples=plain).to_jsonl(folder / "answers.jsonl")
