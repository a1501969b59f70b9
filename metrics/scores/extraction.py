"""Extraction metrics: grounding of extracted values in their evidence, and agreement between sources.

They are those of the retrieval, extraction and aggregation framework.

Extractions are grouped by field (those without a `field` are one), and the value of an event is that of its worst one.
null, blank text and empty lists and objects are no values; 0 and false are. The metrics are null if the extractions
have over 4,096 texts and numbers, or texts over the event's limits, because a part of them would mislead.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ragweir.metrics.metric import Better, Metric, Null, Unit, Value, shared
from ragweir.metrics.text.text import Text
from ragweir.metrics.values import canonical
from ragweir.metrics.view import View

_LEVELS = {"HIGH": 0.90, "MEDIUM": 0.75, "LOW": 0.50}
_UNKNOWN = 0.70

_PATTERNS = ((0.95, "unanimous"), (0.7, "majority"), (0.4, "mixed"))
"""The share that a label requires more than; below all it is conflicting."""

_VERDICTS = ("fail", "skipped", "pass")
"""Worst first."""


@dataclass(frozen=True, slots=True)
class _ExtractedValue:
    """A value from one source."""

    form: str
    """Its canonical form; see `ragweir.metrics.values`."""
    texts: tuple[Text, ...]
    confidence: float | str | None
    evidence: Text


_ValuesByField = dict[str | None, list[_ExtractedValue]]
"""The values of each field, which may be none."""

_NEITHER = Null("the event has neither extractions nor aggregation")
_TOO_MUCH = Null("the extractions hold more texts, or longer ones, than the limits allow")


@dataclass(frozen=True, slots=True)
class _Agreement:
    """The share of the commonest value of one field, and the number of distinct values."""

    share: float
    unique: int


@shared
def _by_field(view: View) -> _ValuesByField | Null:
    extracted = view.extracted
    if extracted is None:
        return _TOO_MUCH
    fields: _ValuesByField = {}
    for extraction, texts in zip(view.interaction.extractions or (), extracted, strict=True):
        values = fields.setdefault(extraction.field, [])
        form = canonical(extraction.value, texts.value)
        if form is not None:
            values.append(_ExtractedValue(form, texts.value, extraction.confidence, texts.evidence))
    return fields


def _confidence(given: float | str | None) -> float | None:
    """Return a confidence as a number, or None if it is absent or invalid."""
    if not isinstance(given, str):
        return given
    label = given.strip().upper()
    if label in _LEVELS:
        return _LEVELS[label]
    try:
        number = float(label)
    except ValueError:
        return None
    return number if 0 <= number <= 1 else None


def aggregated_confidence(view: View) -> Value:
    """Lowest confidence of the application in the values of a field.

    Formula: for a field with one extracted value that has a confidence, that; else the confidence of the field's
    aggregation; else 0.70. HIGH is 0.90, MEDIUM 0.75, LOW 0.50; of two aggregations the lower one counts. The value is
    the minimum over fields, 0.70 if there are none.
    Undefined: if the event has neither `extractions` nor `aggregation`, or extractions over the limits.
    Known limits: it repeats the application's own opinion.
    Deviations: a confidence of 0 counts (the framework's code ignores it), and so do numbers in aggregations.

    >>> from ragweir.metrics.view import example
    >>> aggregated_confidence(example(extractions=[{"field": "roofType", "value": "tile", "confidence": 0.88}]))
    0.88
    >>> aggregated_confidence(example(aggregation=[{"field": "roofType", "confidence": "MEDIUM"}]))
    0.75
    """
    interaction = view.interaction
    if interaction.extractions is None and interaction.aggregation is None:
        return _NEITHER
    fields = _by_field(view)
    if isinstance(fields, Null):
        return fields
    confidences: dict[str | None, float] = dict.fromkeys(fields, _UNKNOWN)
    aggregated: dict[str | None, float] = {}
    for entry in interaction.aggregation or ():
        confidence = _confidence(entry.confidence)
        known = _UNKNOWN if confidence is None else confidence
        aggregated[entry.field] = min(known, aggregated.get(entry.field, known))
    confidences |= aggregated
    for field, values in fields.items():
        if len(values) == 1 and (own := _confidence(values[0].confidence)) is not None:
            confidences[field] = own
    return min(confidences.values(), default=_UNKNOWN)


def _is_grounded(value: _ExtractedValue) -> bool | None:
    """Return True if all words of a value occur in its evidence; None if there are no words or no evidence."""
    evidence = value.evidence
    if not any(text.tokens for text in value.texts) or not evidence.text.strip():
        return None
    return all(
        # Tokens of scripts without spaces are pairs, among which a single character is not found.
        token in evidence.distinct or (kind == "P" and len(token) == 1 and token in evidence.text)
        for text in value.texts
        for token, kind in zip(text.tokens, text.kinds, strict=True)
    )


@shared
def _validated(view: View) -> dict[str | None, tuple[int, int]] | Null:
    """Return for each field the number of grounded values, and the number of values that could be checked."""
    fields = _by_field(view)
    if isinstance(fields, Null):
        return fields
    validated: dict[str | None, tuple[int, int]] = {}
    for field, values in fields.items():
        checks = [_is_grounded(value) for value in values]
        validated[field] = checks.count(True), len(checks) - checks.count(None)
    return validated


def _verdict(passed: int, total: int) -> str:
    if not total:
        return "skipped"
    return "pass" if passed / total >= 0.5 else "fail"


def semantic_validation(view: View) -> Value:
    """Verdict on the grounding of the extracted values in their evidence.

    Formula: a value is grounded if each of its words occurs in its `evidence`, folded, and its numbers, dates and times
    by value; of a list or an object, all elements. A field is pass if at least half of the values that could be checked
    are grounded, fail if fewer are, skipped if none could be checked. The event is fail if any field is, else skipped
    if any field is or there are none, else pass.
    Undefined: without `extractions`, or if they are over the limits.
    Known limits: the words may be apart, or negated. true, false and values without any word or number are not checked.

    >>> from ragweir.metrics.view import example
    >>> semantic_validation(example(extractions=[
    ...     {"field": "price", "value": 1200, "evidence": "The premium is $1,200.00 a year."}]))
    'pass'
    """
    validated = _validated(view)
    if isinstance(validated, Null):
        return validated
    verdicts = {_verdict(*counts) for counts in validated.values()}
    return next((verdict for verdict in _VERDICTS if verdict in verdicts), "skipped")


def explain_validation(view: View) -> tuple[str, ...]:
    """Return the fields that did not pass, with their counts.

    >>> from ragweir.metrics.view import example
    >>> explain_validation(example(extractions=[{"field": "roof", "value": "tile", "evidence": "Slate roof."}]))
    ('fail, 0 of 1 values stand in their evidence: roof',)
    """
    validated = _validated(view)
    if isinstance(validated, Null):
        return ()
    verdicts = ((field, _verdict(*counts), *counts) for field, counts in validated.items())
    return tuple(
        f"{verdict}, {passed} of {total} values stand in their evidence: {field}"
        for field, verdict, passed, total in verdicts
        if verdict != "pass"
    )


@shared
def _agreements(view: View) -> dict[str | None, _Agreement] | Null:
    fields = _by_field(view)
    if isinstance(fields, Null):
        return fields
    agreements: dict[str | None, _Agreement] = {}
    for field, values in fields.items():
        counts = Counter(value.form for value in values)
        share = max(counts.values()) / len(values) if values else 1.0
        agreements[field] = _Agreement(share, len(counts))
    return agreements


@shared
def _worst(view: View) -> _Agreement | Null:
    """Return the agreement of the field that agrees least; of several, of the one with the most distinct values."""
    agreements = _agreements(view)
    if isinstance(agreements, Null):
        return agreements
    nothing = _Agreement(1.0, 0)
    return min(agreements.values(), key=lambda field: (field.share, -field.unique), default=nothing)


def _pattern(share: float) -> str:
    return next((label for least, label in _PATTERNS if share > least), "conflicting")


def multi_source_agreement(view: View) -> Value:
    """Share of the sources that give the commonest value, of the field that agrees least.

    Formula: extractions with the commonest value / extractions with a value, to three decimals; 1 with at most one.
    The value is the minimum over fields. Values are compared folded; numbers, dates and times by value; lists and
    objects as their JSON.
    Undefined: without `extractions`, or if they are over the limits.
    Known limits: "tile" and "tiled" are two values; "$5" and "€5" are one, since amounts are compared by value.
    Deviations: the framework's code ignores 0 and false; they are values here.

    >>> from ragweir.metrics.view import example
    >>> multi_source_agreement(example(extractions=[{"value": value} for value in ("$1,200", 1200, "1300")]))
    0.667
    """
    worst = _worst(view)
    return worst if isinstance(worst, Null) else round(worst.share, 3)


def agreement_pattern(view: View) -> Value:
    """Level of agreement between several sources.

    Formula: by `multi_source_agreement` before rounding: above 0.95 unanimous, above 0.7 majority, above 0.4 mixed,
    else conflicting.
    Undefined: without `extractions`, or if they are over the limits.
    Reference: the retrieval, extraction and aggregation framework, `agreement_pattern`. (Its flow calls 0.95
    unanimous; its code calls it a majority.)

    >>> from ragweir.metrics.view import example
    >>> agreement_pattern(example(extractions=[{"value": "tile"}] * 19 + [{"value": "slate"}]))
    'majority'
    """
    worst = _worst(view)
    return worst if isinstance(worst, Null) else _pattern(worst.share)


def explain_agreement(view: View) -> tuple[str, ...]:
    """Return the fields that are not unanimous.

    >>> from ragweir.metrics.view import example
    >>> explain_agreement(example(extractions=[{"field": "roof", "value": value} for value in ("tile", "slate")]))
    ('mixed, 2 different values: roof',)
    """
    agreements = _agreements(view)
    if isinstance(agreements, Null):
        return ()
    patterns = ((field, _pattern(found.share), found.unique) for field, found in agreements.items())
    return tuple(
        f"{pattern}, {unique} different values: {field}"
        for field, pattern, unique in patterns
        if pattern != "unanimous"
    )


def unique_values(view: View) -> Value:
    """Number of distinct values of the field that agrees least.

    Formula: distinct values of the field of `multi_source_agreement`; of several such fields, of the one with most. 1
    if all sources agree, 0 without extractions.
    Undefined: without `extractions`, or if they are over the limits.
    Reference: the retrieval, extraction and aggregation framework, `multi_source_agreement`.

    >>> from ragweir.metrics.view import example
    >>> unique_values(example(extractions=[{"value": "Tile"}, {"value": "tile"}, {"value": None}, {"value": 0}]))
    2
    """
    worst = _worst(view)
    return worst if isinstance(worst, Null) else worst.unique


_GROUP = "extraction"
_DOCUMENT = "the retrieval, extraction and aggregation framework"
_NEEDS = ("extractions",)
_AGREEMENT_LABELS = (*(label for _, label in _PATTERNS), "conflicting")

_CATEGORY: tuple[str, Unit, Better, tuple[str, ...], str] = (_GROUP, "category", "neither", _NEEDS, _DOCUMENT)
_AGREEMENT: tuple[str, Unit, Better, tuple[str, ...], str] = (_GROUP, "ratio", "higher", _NEEDS, _DOCUMENT)

METRICS = (
    Metric(aggregated_confidence, _GROUP, "ratio", "higher", (), _DOCUMENT),
    Metric(semantic_validation, *_CATEGORY, labels=("pass", "fail", "skipped"), explain=explain_validation),
    Metric(multi_source_agreement, *_AGREEMENT, aliases=("agreement_percentage",), explain=explain_agreement),
    Metric(agreement_pattern, *_CATEGORY, labels=_AGREEMENT_LABELS),
    Metric(unique_values, _GROUP, "count", "lower", _NEEDS, _DOCUMENT),
)
