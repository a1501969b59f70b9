"""Inputs and outputs of Langfuse's traces in the forms that its integrations and applications of their own write."""

from __future__ import annotations

from typing import Any

from tools.exports.questions import Question


def inputs(question: Question) -> Any:
    forms: tuple[Any, ...] = (
        question.text,
        {"question": question.text},
        {"query": question.text, "language": "en"},
        [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": question.text}],
        {"messages": [{"role": "user", "content": question.text}]},
        {"args": [question.text], "kwargs": {}},  # the decorator @observe
        {"input": question.text},
        {"city_or_element": question.text.rstrip("?").rpartition(" ")[2]},  # a form that no map foresees
    )
    return forms[question.number % len(forms)]


def outputs(question: Question) -> Any:
    documents = [{"page_content": each.text, "metadata": {"source": each.source}} for each in question.documents]
    forms: tuple[Any, ...] = (
        question.answer,
        {"answer": question.answer, "contexts": question.texts},
        {"output": question.answer, "documents": documents},
        {"role": "assistant", "content": question.answer},
        {"messages": [{"role": "user", "content": question.text}, {"role": "assistant", "content": question.answer}]},
        question.answer,
        {"answer": question.answer, "context": documents},
        {"value": question.answer, "certain": True},
    )
    return forms[question.number % len(forms)]
