"""Topics that are deleted and created again while services run."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from chaos.waiting import require
from ragweir.errors import RagweirError

CALL_S = 30.0
"""Timeout of one call, in seconds."""
_TOPIC_S = 120.0


def admin(bootstrap: str) -> AdminClient:
    """Return a new admin client."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def recreate(bootstrap: str, topic: str, create: Callable[[], object], away_s: float = 0.0) -> None:
    """Delete a topic and create it again some seconds later, although brokers may not answer during another fault.

    `create` creates it; it does nothing, or raises an error, while the deleted one still exists or nobody answers.
    """
    asked = admin(bootstrap)
    before = _id(asked, topic)
    require(partial(_delete, asked, topic), _TOPIC_S, f"{topic} cannot be deleted")
    time.sleep(away_s)
    # Until it has another id: brokers may still return the deleted one.
    require(partial(_create, asked, topic, create, before), _TOPIC_S, f"{topic} cannot be created again")


def wait_for_partitions(bootstrap: str, topic: str, number: int) -> None:
    """Wait until every broker's metadata have this number of partitions, each with a leader."""
    for address in bootstrap.split(","):
        require(partial(_has_leaders, admin(address), topic, number), _TOPIC_S, f"{topic} does not get its partitions")


def _has_leaders(asked: AdminClient, topic: str, number: int) -> bool:
    found = asked.list_topics(timeout=CALL_S).topics.get(topic)
    leaders = [each.leader for each in found.partitions.values()] if found is not None else []
    return len(leaders) == number and min(leaders) >= 0


def _delete(asked: AdminClient, topic: str) -> bool:
    try:
        asked.delete_topics([topic], operation_timeout=CALL_S)[topic].result(CALL_S)
    except TimeoutError:
        return False
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART)  # An earlier call has done it.
    return True


def _create(asked: AdminClient, topic: str, create: Callable[[], object], before: str) -> bool:
    with suppress(RagweirError, KafkaException, TimeoutError):
        create()
        return _id(asked, topic) != before
    return False


def _id(asked: AdminClient, topic: str) -> str:
    described = asked.describe_topics(TopicCollection([topic]), request_timeout=CALL_S)
    return str(described[topic].result(CALL_S).topic_id)
