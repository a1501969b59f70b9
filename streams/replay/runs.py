"""Runs: where a replay's record is kept, found, listed and deleted. It lies in a topic of the run's own."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from ragweir.errors import PermanentError
from ragweir.schemas.codec.json import encode
from ragweir.schemas.run import Loaded, ReplayRequest, Run
from ragweir.schemas.topics import RUN
from ragweir.streams.kafka.client import Connection, build, client_properties, publisher_properties
from ragweir.streams.kafka.reader import offset_range, read, topics
from ragweir.streams.masking import digest_of_secrets, masked
from ragweir.streams.settings import Settings

_TIMEOUT_S = 30.0
_RECORD, _LOADED = b"run", b"loaded"
_ESSENTIAL = ("limits", "metrics", "output", "windows")
_JUDGING = (
    "base_url",
    "model",
    "embedding_model",
    "answers",
    "prices",
    "budgets_by_application",
    "budgets_by_tenant",
    "other_tenants_share",
    "max_input_chars",
    "max_output_tokens",
    "redaction",
    "redact_patterns",
    "redact_hook",
    "ragas_weights",
)
_IDLE_S = 1
"""A run's topics are read to their ends, and nobody has to wait for more."""


def prefix_of(settings: Settings, run_id: str) -> str:
    """What the names of a run's topics and groups begin with."""
    return f"{settings.topics.prefix}run.{run_id}."


def run_settings(settings: Settings, run: Run) -> Settings:
    """The settings of a run's services: its own topics, no series of the live ones, and a judge as it was asked for."""
    judges: dict[str, dict[str, Any]] = {
        "never": {"base_url": None},
        "cached-only": {"cached_only": True, "retries": 0},
        "budget": {"daily_budget_usd": run.asked.budget_usd},
    }
    changes: dict[str, dict[str, Any]] = {
        "topics": {"prefix": prefix_of(settings, run.run_id), "partitions": run.partitions},
        "input": {"start_from": "earliest"},
        "telemetry": {"port": 0},
        "windows": {"idle_s": _IDLE_S},
        "judge": judges[run.asked.judge],
    }
    groups = {name: getattr(settings, name).model_copy(update=change) for name, change in changes.items()}
    return settings.model_copy(update={**groups, "slo": ()})


def result_affecting_settings(settings: Settings, asked: ReplayRequest) -> dict[str, Any]:
    """The settings that results depend on, secrets among them, and the texts of the files that they name.

    Raises:
        OSError: if one of these cannot be read.
    """
    whole = settings.model_dump(mode="json")
    kept = {name: whole[name] for name in _ESSENTIAL}
    kept["input"] = {"duplicate_horizon": settings.input.duplicate_horizon}
    if settings.input.map is not None:
        kept["input"]["map"] = settings.input.map.read_text(encoding="utf-8")
    if settings.metrics.packs is not None:
        packs = sorted(settings.metrics.packs.glob("*.toml"))
        kept["packs"] = {pack.name: pack.read_text(encoding="utf-8") for pack in packs}
    if asked.judge != "never":
        kept["routing"] = whole["routing"]
        kept["judge"] = {name: whole["judge"][name] for name in _JUDGING}
    return kept


def fingerprint(kept: Mapping[str, Any], run_id: str) -> str:
    """A digest that tells a run's settings from others. Of secrets it holds only what is slow to guess, per run.

    >>> fingerprint({"a": 1, "b": 2}, "r") == fingerprint({"b": 2, "a": 1}, "r")
    True
    >>> fingerprint({"routing": {"key": "one"}}, "r") == fingerprint({"routing": {"key": "two"}}, "r")
    False
    """
    told = orjson.dumps(masked(kept), option=orjson.OPT_SORT_KEYS)
    secrets = digest_of_secrets(kept, f"ragweir run {run_id}")
    return hashlib.sha256(told + secrets.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class StoredRun:
    """What is known of a run."""

    run: Run
    loaded: Loaded


def find(settings: Settings, run_id: str) -> StoredRun | None:
    """A run's record as it was stored last; None if there is no such run.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if the topic holds something else.
    """
    topic = prefix_of(settings, run_id) + RUN.name
    return _found(settings, topic) if topic in topics(settings) else None


def every(settings: Settings) -> list[Run]:
    """All runs, the oldest first.

    Raises:
        Unreachable: if no broker answers.
    """
    head, tail = prefix_of(settings, ""), f".{RUN.name}"
    names = [name for name in topics(settings) if name.startswith(head[:-1]) and name.endswith(tail)]
    found = [_found(settings, name) for name in names]
    return sorted((each.run for each in found if each is not None), key=lambda run: run.began_at)


def _found(settings: Settings, topic: str) -> StoredRun | None:
    newest: dict[bytes | None, bytes] = {}
    for record in read(settings, offset_range(settings, topic)):
        if record.value is not None:
            newest[record.key] = record.value
    if _RECORD not in newest:
        return None
    try:
        run = Run.model_validate_json(newest[_RECORD])
        return StoredRun(run, Loaded.model_validate_json(newest.get(_LOADED, b"{}")))
    except ValueError:
        raise PermanentError(f"the topic {topic} holds no run that this version can read") from None


def store(settings: Settings, run: Run) -> None:
    """Keep a run's record.

    Raises:
        PermanentError: if Kafka does not take it.
    """
    lost: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            lost.append(error)

    producer = build(Producer, publisher_properties(settings, Connection(quiet=True)))
    topic = prefix_of(settings, run.run_id) + RUN.name
    producer.produce(topic, encode(run), _RECORD, on_delivery=delivered)
    if producer.flush(_TIMEOUT_S) or lost:
        raise PermanentError(
            f"Kafka does not take the record of the run: {lost[0].str() if lost else 'no answer in time'}"
        )


def loaded_record(settings: Settings, run_id: str, loaded: Loaded) -> tuple[str, bytes, bytes]:
    """How far files are loaded, as topic, value and key."""
    return prefix_of(settings, run_id) + RUN.name, encode(loaded), _LOADED


def delete(settings: Settings, run_id: str) -> list[str]:
    """Delete a run's topics and groups; gives the topics' names, none if there is no such run.

    Raises:
        PermanentError: if Kafka refuses, or one of its services is at work.
    """
    head = prefix_of(settings, run_id)
    admin = build(AdminClient, client_properties(settings, Connection(quiet=True)))
    groups = admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result().valid
    own = [group for group in groups if group.group_id.startswith(head)]
    if working := [group.group_id for group in own if group.state == ConsumerGroupState.STABLE]:
        raise PermanentError(f"the run {run_id} is being worked on by {', '.join(sorted(working))}; stop that first")
    _settle(admin.delete_consumer_groups([group.group_id for group in own]) if own else {})
    names = sorted(name for name in topics(settings) if name.startswith(head))
    # The record goes last, so that a deletion that was broken off can be repeated.
    names.sort(key=lambda name: name == head + RUN.name)
    for name in names:
        _settle(admin.delete_topics([name], operation_timeout=_TIMEOUT_S))
    return names


def _settle(futures: Mapping[str, Any]) -> None:
    for name, future in futures.items():
        try:
            future.result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNKNOWN_TOPIC_OR_PART):
                raise PermanentError(f"Kafka does not delete {name}: {error.args[0].str()}") from None
