"""Records of replays: stored in a topic of each run, found, listed and deleted."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.schemas.codec.json import encode
from ragweir.schemas.registry.schema import FORMATS
from ragweir.schemas.run import Loaded, ReplayRequest, Run
from ragweir.schemas.topics import RUN
from ragweir.streams.runtime.kafka.client import Connection, build, client_properties, publisher_properties
from ragweir.streams.runtime.kafka.reader import offset_range, read, topics
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.masking import digest_of_secrets, masked
from ragweir.streams.services.shared.from_settings import map_text
from ragweir.streams.settings import Settings
from ragweir.streams.settings.events import JSON

_TIMEOUT_SECONDS = 30.0
_MEMBER_SECONDS = 12.0
"""Time for which Kafka may take a member for present that has ended: the session's limit, and some more."""
_PAUSE_SECONDS = 0.5
_RUN_KEY, _LOADED_KEY = b"run", b"loaded"
_AFFECTING_GROUPS = ("limits", "metrics", "output", "windows")
_AFFECTING_JUDGE_SETTINGS = (
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
_LATER_JUDGE_SETTINGS = ("extra_body", "query", "temperature")
"""Settings of later releases: at their defaults a run of an earlier one goes on."""
_IDLE_SECONDS = 1
"""Value of `windows.idle_s` in a run, whose topics get no later records."""


def prefix_of(settings: Settings, run_id: str) -> str:
    """Return the prefix of a run's topics and consumer groups."""
    return f"{settings.topics.prefix}run.{run_id}."


def run_settings(settings: Settings, run: Run) -> Settings:
    """Return the settings of a run's services: topics of its own, the requested judge, no telemetry port, no SLOs.

    Lines of files are JSON, also where the records of the input topic are in a format of a registry. Nothing is written
    in `output.format`. Evaluations have their OpenTelemetry form only if `output.otlp.replays` is on, and not in the
    topic of live ones.
    """
    otlp = settings.output.otlp
    judges: dict[str, dict[str, Any]] = {
        "never": {"base_url": None},
        "cached-only": {"cached_only": True, "retries": 0},
        "budget": {"daily_budget_usd": run.asked.budget_usd},
    }
    changes: dict[str, dict[str, Any]] = {
        "topics": {"prefix": prefix_of(settings, run.run_id), "partitions": run.partitions},
        "input": {
            "start_from": "earliest",
            "format": JSON if run.files and settings.input.format in FORMATS else settings.input.format,
        },
        "telemetry": {"port": 0},
        "windows": {"idle_s": _IDLE_SECONDS},
        "output": {
            "format": "json",
            "otlp": otlp.model_copy(update={"topic": None}) if otlp and otlp.replays else None,
        },
        "judge": judges[run.asked.judge],
    }
    groups = {name: getattr(settings, name).model_copy(update=change) for name, change in changes.items()}
    return settings.model_copy(update={**groups, "slo": ()})


def result_affecting_settings(settings: Settings, request: ReplayRequest) -> dict[str, Any]:
    """Return the settings that results depend on, with their secrets, and the texts of the files that they name.

    Raises:
        ConfigurationError: if one of these files cannot be read.
    """
    every = settings.model_dump(mode="json")
    affecting = {name: every[name] for name in _AFFECTING_GROUPS}
    affecting["output"] = {"include_text": every["output"]["include_text"]}
    affecting["input"] = {name: every["input"][name] for name in ("duplicate_horizon", "format")}
    try:
        if settings.input.map is not None:
            affecting["input"]["map"] = map_text(settings.input.map)
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError("the map that the settings name cannot be read") from None
    if request.judge != "never":
        affecting["routing"] = every["routing"]
        later = settings.judge.changed(*_LATER_JUDGE_SETTINGS)
        affecting["judge"] = {name: every["judge"][name] for name in (*_AFFECTING_JUDGE_SETTINGS, *later)}
        prices = settings.judge.prices.items()
        affecting["judge"]["prices"] = {name: price.model_dump(exclude_none=True) for name, price in prices}
    return affecting


def fingerprint(affecting: Mapping[str, Any], run_id: str) -> str:
    """Return a digest of result-affecting settings; secrets enter it as a slow hash, salted with the run's id.

    >>> fingerprint({"a": 1, "b": 2}, "r") == fingerprint({"b": 2, "a": 1}, "r")
    True
    >>> fingerprint({"routing": {"key": "one"}}, "r") == fingerprint({"routing": {"key": "two"}}, "r")
    False
    """
    plain = orjson.dumps(masked(affecting), option=orjson.OPT_SORT_KEYS)
    secrets = digest_of_secrets(affecting, f"ragweir run {run_id}")
    return hashlib.sha256(plain + secrets.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class StoredRun:
    """The record of a run and the progress of loading its files."""

    run: Run
    loaded: Loaded


def find_run(settings: Settings, run_id: str) -> StoredRun | None:
    """Return the latest record of a run; None if there is no such run.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if the run's topic holds something else.
    """
    topic = prefix_of(settings, run_id) + RUN.name
    return _read_run(settings, topic) if topic in topics(settings) else None


def stored_runs(settings: Settings) -> list[Run]:
    """Return all runs, the oldest first.

    Raises:
        Unreachable: if no broker answers.
    """
    head, tail = prefix_of(settings, ""), f".{RUN.name}"
    names = [name for name in topics(settings) if name.startswith(head[:-1]) and name.endswith(tail)]
    found = [_read_run(settings, name) for name in names]
    return sorted((each.run for each in found if each is not None), key=lambda run: run.began_at)


def _read_run(settings: Settings, topic: str) -> StoredRun | None:
    records = read(settings, offset_range(settings, topic))
    latest = {record.key: record.value for record in records if record.value is not None}
    if _RUN_KEY not in latest:
        return None
    try:
        run = Run.model_validate_json(latest[_RUN_KEY])
        return StoredRun(run, Loaded.model_validate_json(latest.get(_LOADED_KEY, b"{}")))
    except ValueError:
        raise PermanentError(f"the topic {topic} holds no run that this version can read") from None


def store_run(settings: Settings, run: Run) -> None:
    """Write the record of a run to its topic.

    Raises:
        PermanentError: if Kafka rejects it.
    """
    errors: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            errors.append(error)

    producer = build(Producer, publisher_properties(settings, Connection(quiet=True)))
    topic = prefix_of(settings, run.run_id) + RUN.name
    producer.produce(topic, encode(run), _RUN_KEY, on_delivery=on_delivery)
    if producer.flush(_TIMEOUT_SECONDS) or errors:
        reason = errors[0].str() if errors else "no answer in time"
        raise PermanentError(f"Kafka does not take the record of the run: {reason}")


def loaded_record(settings: Settings, loaded: Loaded) -> tuple[str, bytes, bytes]:
    """Return topic, value and key of the progress record of loading, from the run's settings."""
    return settings.topics.prefix + RUN.name, encode(loaded), _LOADED_KEY


def delete_run(settings: Settings, run_id: str) -> list[str]:
    """Delete a run's topics and consumer groups; return the topics' names, none if there is no such run.

    Raises:
        PermanentError: if Kafka rejects a deletion, or a service of the run is running.
    """
    head = prefix_of(settings, run_id)
    admin = build(AdminClient, client_properties(settings, Connection(quiet=True)))
    until = machine.monotonic() + _MEMBER_SECONDS
    while True:
        groups = admin.list_consumer_groups(request_timeout=_TIMEOUT_SECONDS).result().valid
        own = [group for group in groups if group.group_id.startswith(head)]
        active = sorted(group.group_id for group in own if group.state == ConsumerGroupState.STABLE)
        if not active:
            break
        if machine.monotonic() > until:
            raise PermanentError(f"the run {run_id} is being worked on by {', '.join(active)}; stop that first")
        machine.sleep(_PAUSE_SECONDS)
    _await(admin.delete_consumer_groups([group.group_id for group in own]) if own else {})
    # The topic of the record is the last one, so that an interrupted deletion can be repeated.
    names = sorted(
        (name for name in topics(settings) if name.startswith(head)), key=lambda name: (name == head + RUN.name, name)
    )
    for name in names:
        _await(admin.delete_topics([name], operation_timeout=_TIMEOUT_SECONDS))
    return names


def _await(futures: Mapping[str, Any]) -> None:
    for name, future in futures.items():
        try:
            future.result(_TIMEOUT_SECONDS)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError.UNKNOWN_TOPIC_OR_PART):
                raise PermanentError(f"Kafka does not delete {name}: {error.args[0].str()}") from None
