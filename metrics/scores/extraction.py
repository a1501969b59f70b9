"""Extraction: is each value that was read out of the sources grounded there, and do the sources agree? (document 002).

Extractions are taken field by field (those without a `field` are one field), and the event takes its worst field.
null, blank text and empty lists and objects are no values; 0 and false are. An event whose extractions hold over 4,096
texts and numbers, or texts over the event's limits, gets none of these metrics: a part of them would mislead.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ragweir.metrics.metric import Metric, Null, Value, shared
from ragweir.metrics.text.text import Text
from ragweir.metrics.values import canonical
from ragweir.metrics.view import View

_LEVELS = {"HIGH": 0.90, "MEDIUM": 0.75, "LOW": 0.50}
_UNKNOWN = 0.70

_PATTERNS = ((0.95, "unanimous"), (0.7, "majority"), (0.4, "mixed"))
"""What a share must exceed for its label; the rest is conflicting."""

_VERDICTS = ("fail", "skipped", "pass")
"""Worst first."""


@dataclass(frozen=True, slots=True)
class _ExtractedValue:
    """A value that one source gave."""

    form: str
    """The forms that it compares as; see `ragweir.metrics.values`."""
    texts: tuple[Text, ...]
    """What it holds."""
    confidence: float | str | None
    evidence: Text


_Readings = dict[str | None, list[_ExtractedValue]]
"""Per field the readings of a value; a field in which none was found has none."""

_TOO_MUCH = Null("the extractions hold more texts, or longer ones, than the limits allow")


@dataclass(frozen=True, slots=True)
class _Agreement:
    """How far the extractions of one field agree."""

    share: float
    unique: int


@shared
def _by_field(view: View) -> _Readings | Null:
    extracted = view.extracted
    if extracted is None:
        return _TOO_MUCH
    fields: _Readings = {}
    for extraction, texts in zip(view.interaction.extractions or (), extracted, strict=True):
        readings = fields.setdefault(extraction.field, [])
        form = canonical(extraction.value, texts.value)
        if form is not None:
            readings.append(_ExtractedValue(form, texts.value, extraction.confidence, texts.evidence))
    return fields


def _confidence(given: float | str | None) -> float | None:
    """A confidence as a number, or None when it is absent or cannot be read."""
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
    """How sure the application is of what it extracted.

    Formula: per field, when one single extraction found a value and has a confidence of its own, that; else the
    confidence of the field's aggregation; else 0.70. HIGH is 0.90, MEDIUM 0.75, LOW 0.50, a number itself. The event
    takes its least sure field.
    Range: 0 to 1; higher is better.
    Undefined: when the event has neither `extractions` nor `aggregation`, or extractions over the limits. Both empty
    give 0.70.
    Reference: document 002, `aggregated_confidence`.
    Known limits: it repeats what the application says of itself. A field that was aggregated twice takes the lower.
    Deviations: a confidence of 0 is one (the document's code passes over it); numbers stand for themselves in
    aggregations too.

    >>> from ragweir.metrics.view import example
    >>> aggregated_confidence(example(extractions=[{"field": "roofType", "value": "tile", "confidence": 0.88}]))
    0.88
    >>> aggregated_confidence(example(aggregation=[{"field": "roofType", "confidence": "MEDIUM"}]))
    0.75
    """
    interaction = view.interaction
    if interaction.extractions is None and interaction.aggregation is None:
        return Null("the event has neither extractions nor aggregation")
    fields = _by_field(view)
    if isinstance(fields, Null):
        return fields
    sure: dict[str | None, float] = dict.fromkeys(fields, _UNKNOWN)
    aggregated: dict[str | None, float] = {}
    for entry in interaction.aggregation or ():
        confidence = _confidence(entry.confidence)
        known = _UNKNOWN if confidence is None else confidence
        aggregated[entry.field] = min(known, aggregated.get(entry.field, known))
    sure |= aggregated
    for field, readings in fields.items():
        if len(readings) == 1 and (own := _confidence(readings[0].confidence)) is not None:
            sure[field] = own
    return min(sure.values(), default=_UNKNOWN)


def _grounded(reading: _ExtractedValue) -> bool | None:
    """Whether all words of a value stand in its evidence; None when there is nothing to look in or to look for."""
    evidence = reading.evidence
    if not any(text.tokens for text in reading.texts) or not evidence.text.strip():
        return None
    return all(
        # A script without spaces is read in pairs of characters, among which one character alone is not found.
        token in evidence.distinct or (kind == "P" and len(token) == 1 and token in evidence.text)
        for text in reading.texts
        for token, kind in zip(text.tokens, text.kinds, strict=True)
    )


@shared
def _validated(view: View) -> dict[str | None, tuple[int, int]] | Null:
    """Per field how many values stand in their evidence, and how many could be looked for."""
    fields = _by_field(view)
    if isinstance(fields, Null):
        return fields
    validated: dict[str | None, tuple[int, int]] = {}
    for field, readings in fields.items():
        checks = [_grounded(reading) for reading in readings]
        validated[field] = checks.count(True), len(checks) - checks.count(None)
    return validated


def _verdict(passed: int, total: int) -> str:
    if not total:
        return "skipped"
    return "pass" if passed / total >= 0.5 else "fail"


def semantic_validation(view: View) -> Value:
    """Do the extracted values stand in the evidence that was given for them?

    Formula: a value is grounded when each of its words stands in its `evidence`, folded, and its numbers, dates and
    times by value; of a list or an object, all that it holds. Per field: pass when at least half of the values that
    could be checked are grounded, fail when fewer are, skipped when none could be. The event takes fail before skipped
    before pass.
    Range: pass, fail, skipped. No extractions are skipped.
    Undefined: without `extractions`, or when they are over the limits.
    Reference: document 002, `semantic_validation`.
    Known limits: the words may stand apart, or be negated. true and false are not checked, since evidence says "has a
    pool" and not "true"; nor are values without any word or number.

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
    """Which fields did not pass, and why.

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
    for field, readings in fields.items():
        counts = Counter(reading.form for reading in readings)
        share = max(counts.values()) / len(readings) if readings else 1.0
        agreements[field] = _Agreement(share, len(counts))
    return agreements


@shared
def _worst(view: View) -> _Agreement | Null:
    """The field that agrees least; of several, the one with the most different values."""
    agreements = _agreements(view)
    if isinstance(agreements, Null):
        return agreements
    nothing = _Agreement(1.0, 0)
    return min(agreements.values(), key=lambda field: (field.share, -field.unique), default=nothing)


def _pattern(share: float) -> str:
    return next((label for least, label in _PATTERNS if share > least), "conflicting")


def multi_source_agreement(view: View) -> Value:
    """Do several sources give the same value?

    Formula: extractions with the commonest value / extractions with a value, to three decimals; 1 with at most one.
    The event takes the field that agrees least. Values compare folded; numbers, dates and times by value; lists and
    objects as their JSON.
    Range: 0 to 1 (0 excluded); higher is better. No extractions give 1.
    Undefined: without `extractions`, or when they are over the limits.
    Reference: document 002, `multi_source_agreement`.
    Known limits: "tile" and "tiled" are two values; "$5" and "€5" are one, since amounts compare by value.
    Deviations: the document's code passes over 0 and false too; they are values here.

    >>> from ragweir.metrics.view import example
    >>> multi_source_agreement(example(extractions=[{"value": value} for value in ("$1,200", 1200, "1300")]))
    0.667
    """
    worst = _worst(view)
    return worst if isinstance(worst, Null) else round(worst.share, 3)


def agreement_pattern(view: View) -> Value:
    """How several sources agree, in a word.

    Formula: of `multi_source_agreement` before rounding: above 0.95 unanimous, above 0.7 majority, above 0.4 mixed,
    else conflicting.
    Range: these four labels. No extractions are unanimous.
    Undefined: without `extractions`, or when they are over the limits.
    Reference: document 002, `agreement_pattern`. (Its flow calls 0.95 unanimous; its code calls it a majority.)

    >>> from ragweir.metrics.view import example
    >>> agreement_pattern(example(extractions=[{"value": "tile"}] * 19 + [{"value": "slate"}]))
    'majority'
    """
    worst = _worst(view)
    return worst if isinstance(worst, Null) else _pattern(worst.share)


def explain_agreement(view: View) -> tuple[str, ...]:
    """Which fields are not unanimous.

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
    """How many different values the sources gave.

    Formula: distinct values of the field that `multi_source_agreement` takes; of several that agree alike, of the one
    with most.
    Range: 0 and up, 1 when all agree; lower is better. No extractions give 0.
    Undefined: without `extractions`, or when they are over the limits.
    Reference: document 002, `multi_source_agreement`.

    >>> from ragweir.metrics.view import example
    >>> unique_values(example(extractions=[{"value": "Tile"}, {"value": "tile"}, {"value": None}, {"value": 0}]))
    2
    """
    worst = _worst(view)
    return worst if isinstance(worst, Null) else worst.unique


_GROUP = "extraction"
_DOCUMENT = "document 002"
_NEEDS = ("extractions",)
_AGREEMENT_LABELS = (*(label for _, label in _PATTERNS), "conflicting")

METRICS = (
    Metric(aggregated_confidence, _GROUP, "ratio", "higher", (), _DOCUMENT),
    Metric(
        semantic_validation,
        _GROUP,
        "category",
        "neither",
        _NEEDS,
        _DOCUMENT,
        labels=("pass", "fail", "skipped"),
        explain=explain_validation,
    ),
    Metric(
        multi_source_agreement,
        _GROUP,
        "ratio",
        "higher",
        _NEEDS,
        _DOCUMENT,
        aliases=("agreement_percentage",),
        explain=explain_agreement,
    ),
    Metric(agreement_pattern, _GROUP, "category", "neither", _NEEDS, _DOCUMENT, labels=_AGREEMENT_LABELS),
    Metric(unique_values, _GROUP, "count", "lower", _NEEDS, _DOCUMENT),
)
