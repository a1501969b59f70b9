"""Reads the file of anchors: interactions with what people said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragweir.errors import ConfigurationError, Rejected, UnreadableFile
from ragweir.metrics.judged.suites import suites
from ragweir.schemas.codec.decoder import JsonDecoder
from ragweir.schemas.interaction import Interaction
from ragweir.streams.files.events import read_events
from ragweir.streams.services.judge.anchor_runs import Anchor, AnchorSet
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import Settings
from ragweir.streams.settings.labels import Question

FEWEST_BAD, FEWEST_GOOD = 100, 50
"""Fewest anchors of each kind, with which a drift is found."""
MOST = 2_000
"""Most anchors; their texts are in memory, and a run is requested in one transaction."""


def anchor_set(settings: Settings) -> AnchorSet | None:
    """Return the anchors of `judge.anchor_file`, which answer the first question of `labels.questions`; None if unset.

    Raises:
        ConfigurationError: if the file cannot be read, it has too few anchors, or no suite judges the question.
    """
    if (file := settings.judge.anchor_file) is None:
        return None
    question = settings.labels.questions[0]
    metric = known_catalogue(settings).metrics.get(question.metric)
    every = suites(settings.judge.ragas_weights, decides=settings.judge.decides)
    if metric is None or metric.group not in every or metric.better == "neither":
        raise ConfigurationError(
            f"judge.anchor_file needs a judge's metric: {question.metric}, of the question {question.name}, is none"
        )
    suite = every[metric.group]
    return AnchorSet(
        anchors=_read(settings, file, question),
        metric=metric.name,
        threshold=question.threshold,
        higher_is_better=metric.better == "higher",
        suite=suite.name,
        suite_version=suite.version,
        model=settings.judge.model,
        asked_with=settings.judge.changed("extra_body", "temperature"),
    )


def _read(settings: Settings, file: Path, question: Question) -> tuple[Anchor, ...]:
    """Return the anchors of a file, in the order of their ids."""
    limits, found = settings.limits, dict[str, Anchor]()
    decoder = JsonDecoder(limits.max_event_bytes, limits.max_items)
    try:
        for number, value in read_events(file, limits.max_event_bytes):
            for event in decoder.decode(value, number):
                anchor = _anchor(event, question)
                if isinstance(anchor, str):
                    raise ConfigurationError(f"line {number} of the anchors {file}: {anchor}")
                if anchor.id in found:
                    raise ConfigurationError(f"line {number} of the anchors {file}: {anchor.id} is there twice")
                found[anchor.id] = anchor
    except UnreadableFile as error:
        raise ConfigurationError(f"judge.anchor_file: {error}") from None
    bad = sum(each.bad for each in found.values())
    if bad < FEWEST_BAD or len(found) - bad < FEWEST_GOOD:
        raise ConfigurationError(
            f"judge.anchor_file {file} has {bad:,} bad and {len(found) - bad:,} good answers; {FEWEST_BAD} and "
            f"{FEWEST_GOOD} are needed"
        )
    if len(found) > MOST:
        raise ConfigurationError(f"judge.anchor_file {file} has {len(found):,} answers; at most {MOST:,} are judged")
    return tuple(found[each] for each in sorted(found))


def _anchor(event: object, question: Question) -> Anchor | str:
    """Return the anchor of an event, or why it is none."""
    if not isinstance(event, Interaction):
        return str(event) if isinstance(event, Rejected) else "it is no event"
    if event.query is None or event.response is None:
        return "it has no query or no response"
    bad = _bad(event.extra, question)
    if bad is None:
        return f"it says neither `bad` nor what most people answered to {question.name}"
    contexts = None if event.contexts is None else tuple(each.text or "" for each in event.contexts)
    return Anchor(event.event_id, bad, event.query, event.response, contexts, event.expected)


def _bad(extra: Any, question: Question) -> bool | None:
    """Return whether people call an event bad: by its field `bad`, else by what a line of `ragweir dataset` has."""
    if isinstance(said := extra.get("bad"), bool):
        return said
    dataset = extra.get("dataset")
    people = dataset.get("people") if isinstance(dataset, dict) else None
    balance = 0
    for each in people if isinstance(people, list) else ():
        if isinstance(each, dict) and each.get("question") == question.name:
            value = question.read(each.get("value"))
            verdict = None if value is None else question.is_bad(value)
            balance += 0 if verdict is None else 1 if verdict else -1
    return balance > 0 if balance else None
