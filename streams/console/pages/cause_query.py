"""Questions about causes in query strings: what the page of causes reads, and links of other pages to it have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import urlencode

from ragweir.streams.console.store.answer_query import PAGE_ROWS, TIME, AnswerQuery

_FIELDS = ("where", "since", "until", "slo")
"""Fields of a query that a question has, beside the metric."""


def cause_problem(query: AnswerQuery) -> str:
    """Return why causes cannot be asked by a query; empty if they can."""
    if AnswerQuery(**{each: getattr(query, each) for each in _FIELDS}) != query:
        return "causes are asked by slo or metric, from, to, and dimensions such as application"
    if any(each.startswith("categories.") for each, _ in query.where):
        return "causes are asked by fields and labels, not by categories"
    if len(dict(query.where)) < len(query.where):
        return "a dimension of causes has one value"
    return ""


def cause_link(query: AnswerQuery, is_asked: Callable[[str], bool]) -> str | None:
    """Return the address of the causes among the answers of a list.

    Args:
        query: the list. Its SLO, or else the metric that it is sorted by, decides which answers are bad.
        is_asked: returns whether causes can be asked by a metric.

    Returns:
        None if nothing decides, or the list has conditions by which causes cannot be asked.
    """
    asked = replace(query.page(), sort=TIME, ascending=False, ranges=(), limit=PAGE_ROWS)
    if cause_problem(asked):
        return None
    if query.slo is not None:
        return f"/cause?{asked}"
    if query.sort == TIME or not is_asked(query.sort):
        return None
    return "/cause?" + "&".join(filter(None, (urlencode({"metric": query.sort}), str(asked))))
