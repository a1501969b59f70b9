"""The agreement of a metric's verdicts with people's, estimated from labelled answers.

Labels are drawn within each verdict of the metric. The share of bad answers of each verdict has its own limits, and so
has the share of events with the verdict; sensitivity (TPR), specificity (TNR) and the rate of bad answers that people
would find are functions of these three numbers, combined by the method of Zou and Donner (2008). A regression of labels
on verdicts, and t limits of a two-phase estimate, covered less than they say in simulation; `bench/people.py` measures
these.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log
from typing import NamedTuple

from ragweir.metrics.people.shares import Limits, Observed, combined, share

_UNKNOWN = Limits(0.5, 0.0, 1.0, 0)
"""The share of bad answers of a verdict without labels."""


class PeopleVerdict(NamedTuple):
    """One labelled answer."""

    flagged: bool
    """True if the metric calls it bad."""
    bad: bool | None
    """True if people call it bad; None if they cannot tell, or its text is gone."""
    chance: float
    """Chance with which it was judged and labelled, up to a factor that all answers of its verdict share."""


class Agreement(NamedTuple):
    """Agreement of a metric with people; a text gives the reason where a number is not known."""

    tpr: Limits | str
    """Share of the answers that people call bad that the metric calls bad."""
    tnr: Limits | str
    """Share of the answers that people call good that the metric calls good."""
    precision: Limits | str
    """Share of the answers that the metric calls bad that people call bad."""
    kappa: Limits | str
    """Cohen's kappa (1960) of metric and people."""
    people_rate: Limits | str
    """Share of bad answers that people would find."""


NO_LABELS = "no label has an answer"
_NONE_BAD = "people call no labelled answer bad"
_NONE_GOOD = "people call no labelled answer good"
_NONE_FLAGGED = "no labelled answer is bad by the metric"
_ONE_ANSWER = "all labels and verdicts are equal"


def agreement(answers: Sequence[PeopleVerdict], flagged: Limits | None = None) -> Agreement:
    """Return the agreement of a metric with people.

    Args:
        answers: the labelled answers.
        flagged: the share of all events that the metric calls bad, if the answers were drawn by its verdict. None if
            the labelled answers were not drawn: then the numbers are those of such answers, and `chance` is the one of
            being judged.

    >>> answers = [*30 * [PeopleVerdict(True, True, 0.5)], *20 * [PeopleVerdict(True, False, 0.5)]]
    >>> answers += [*5 * [PeopleVerdict(False, True, 0.1)], *45 * [PeopleVerdict(False, False, 0.1)]]
    >>> found = agreement(answers, Limits(0.2, 0.2, 0.2, 1000))
    >>> [f"{each.value:.3f} ({each.low:.3f} to {each.high:.3f})" for each in (found.tpr, found.people_rate)]
    ['0.600 (0.395 to 0.821)', '0.200 (0.139 to 0.298)']
    """
    known = [each for each in answers if each.bad is not None]
    if not known:
        return Agreement(*(NO_LABELS for _ in Agreement._fields))
    # A draw gives the answers of a verdict their chances; others had any of those of the rest, too.
    least = inf if flagged else min(each.chance for each in answers)
    precision, missed = (
        share([Observed(each.bad, each.chance) for each in answers if each.flagged is verdict], least)
        for verdict in (True, False)
    )
    if flagged is None:
        return _of_labelled(known, answers, precision, missed, least)
    own, other = precision or _UNKNOWN, missed or _UNKNOWN
    n = len(known)
    rate = rate_limits(flagged, own, other, n)
    return Agreement(
        tpr=_caught(flagged, own, other, n),
        tnr=_caught(flagged.complement, other.complement, own.complement, n),
        precision=precision or _NONE_FLAGGED,
        kappa=_kappa(flagged, own, other, n),
        people_rate=rate,
    )


def rate_limits(flagged: Limits, precision: Limits, missed: Limits, n: int) -> Limits:
    """Return the rate of bad answers, by the share of flagged events and the shares of bad answers of both verdicts."""
    low, high = combined(_rate, flagged, precision, missed)
    return Limits(_rate(flagged.value, precision.value, missed.value), max(low, 0.0), min(high, 1.0), n)


def kappa(pairs: Sequence[PeopleVerdict]) -> Limits | str:
    """Return Cohen's kappa of two people's answers, of whom the first is `flagged`.

    >>> pairs = 20 * [PeopleVerdict(True, True, 1)] + 5 * [PeopleVerdict(True, False, 1)]
    >>> pairs += 15 * [PeopleVerdict(False, False, 1)]
    >>> [round(each, 2) for each in kappa(pairs)]
    [0.75, 0.44, 0.92, 40]
    """
    first = share([Observed(each.flagged, each.chance) for each in pairs])
    ones, others = (
        share([Observed(each.bad, each.chance) for each in pairs if each.flagged is said]) for said in (True, False)
    )
    return NO_LABELS if first is None else _kappa(first, ones or _UNKNOWN, others or _UNKNOWN, len(pairs))


def _of_labelled(
    known: Sequence[PeopleVerdict],
    answers: Sequence[PeopleVerdict],
    precision: Limits | None,
    missed: Limits | None,
    least: float,
) -> Agreement:
    bad, good = (_of_called(answers, least, bad=said) for said in (True, False))
    flagged = share([Observed(each.flagged, each.chance) for each in answers])
    rate = share([Observed(each.bad, each.chance) for each in answers])
    if flagged is None or rate is None:
        raise ValueError("answers without a verdict")
    return Agreement(
        tpr=bad or _NONE_BAD,
        tnr=good or _NONE_GOOD,
        precision=precision or _NONE_FLAGGED,
        kappa=_kappa(flagged, precision or _UNKNOWN, missed or _UNKNOWN, len(known)),
        people_rate=rate,
    )


def _of_called(answers: Sequence[PeopleVerdict], least: float, *, bad: bool) -> Limits | None:
    """Return the share of those that people call bad, or good, whose verdict is the same.

    The limits allow for each answer of which that is not known to be one of them.
    """
    own = [Observed(each.flagged is bad, each.chance) for each in answers if each.bad is bad]
    if (found := share(own, least)) is None:
        return None
    open_ones = [Observed(each.flagged is bad, each.chance) for each in answers if each.bad is None]
    missed, caught = ([each for each in open_ones if each.holds is same] for same in (False, True))
    low, high = (share([*own, *more], least) or found for more in (missed, caught))
    return found._replace(low=low.low, high=high.high)


def _rate(flagged: float, precision: float, missed: float) -> float:
    return flagged * precision + (1 - flagged) * missed


def _caught(flagged: Limits, precision: Limits, missed: Limits, n: int) -> Limits:
    """Return the share of the bad answers that are flagged.

    Its odds are a product, whose limits are combined as logarithms. Where no bad answer was found among those of one
    verdict, half of one is taken for the centre of the limits; where none was found at all, for the number itself.
    """
    own, other = _centred(precision), _centred(missed)
    found = (precision, missed) if _rate(flagged.value, precision.value, missed.value) else (own, other)
    value = _share_of(_log_odds(flagged.value, *(each.value for each in found)))
    low, high = combined(_log_odds, flagged, own, other)
    return Limits(value, min(_share_of(low), value), max(_share_of(high), value), n)


def _centred(found: Limits) -> Limits:
    half = 0.5 / max(found.n, 1)
    return found if found.value else found._replace(value=min(half, found.high))


def _log_odds(flagged: float, precision: float, missed: float) -> float:
    one, other = flagged * precision, (1 - flagged) * missed
    return (log(one) if one > 0 else -inf) - (log(other) if other > 0 else -inf) if one or other else 0.0


def _share_of(log_odds: float) -> float:
    return 1 / (1 + exp(-log_odds)) if log_odds > -700 else 0.0


def _kappa(flagged: Limits, precision: Limits, missed: Limits, n: int) -> Limits | str:
    value = _kappa_of(flagged.value, precision.value, missed.value)
    rate = _rate(flagged.value, precision.value, missed.value)
    if rate in (0.0, 1.0) and flagged.value in (0.0, 1.0):
        return _ONE_ANSWER
    low, high = combined(_kappa_of, flagged, precision, missed)
    return Limits(value, max(low, -1.0), min(high, 1.0), n)


def _kappa_of(flagged: float, precision: float, missed: float) -> float:
    rate = _rate(flagged, precision, missed)
    agreed = flagged * precision + (1 - flagged) * (1 - missed)
    expected = flagged * rate + (1 - flagged) * (1 - rate)
    return (agreed - expected) / (1 - expected) if expected < 1 else 0.0
