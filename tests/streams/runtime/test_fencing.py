"""The message of a worker whose name was taken over: the likelier cause by what the worker has seen, then the other."""

import math

import pytest
from confluent_kafka import KafkaError

from ragweir.streams.runtime.kafka.client import Connection
from ragweir.streams.runtime.loop.transactions import restart_after

NAME = "rag.evaluate-node-1-0"
TWIN = "give each process its own"
CONSUMER = [KafkaError.FENCED_INSTANCE_ID, KafkaError._FATAL]
PRODUCER = [KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED]


def told(code: int, quiet_s: float = math.inf, open_s: float = 0.0) -> str:
    return str(restart_after(KafkaError(code, "the broker's words"), NAME, quiet_s, open_s))


@pytest.mark.parametrize("code", CONSUMER)
def test_a_consumer_that_saw_no_trouble_probably_has_a_twin(code: int) -> None:
    """Else an earlier request of its own came late, which is named second."""
    assert told(code) == (
        f"'{NAME}' has to start again: probably another process has joined the group as '{NAME}' (the broker's words); "
        "give each process its own slot. If there is no other, an earlier request of its own to join its group "
        "arrived after a later one, and the restart settles it"
    )


@pytest.mark.parametrize("code", CONSUMER)
def test_a_consumer_that_saw_a_broker_go_was_probably_its_own_rival(code: int) -> None:
    assert told(code, quiet_s=12.4) == (
        f"'{NAME}' has to start again: a broker was away 12 s ago, and probably an earlier request of its own to join "
        "its group arrived after a later one (the broker's words); the restart settles it. "
        "If this repeats while all brokers are well, the slot runs twice: give each process its own"
    )


@pytest.mark.parametrize("code", PRODUCER)
@pytest.mark.parametrize(
    ("seen", "quiet_s", "open_s"),
    [("a broker was away 0 s ago", 0.2, 0.1), ("this process or a broker was suspended", math.inf, 11.0)],
)
def test_a_producer_probably_let_its_transaction_time_out(code: int, seen: str, quiet_s: float, open_s: float) -> None:
    text = told(code, quiet_s, open_s)
    assert text.startswith(f"'{NAME}' has to start again: {seen}, and probably the broker has ended its transaction, ")
    assert f"which was open for {open_s:.1f} s (the broker's words); " in text
    assert text.endswith(TWIN)


@pytest.mark.parametrize("code", PRODUCER)
def test_a_producer_that_is_fenced_at_once_probably_has_a_twin(code: int) -> None:
    """As long as the trouble with brokers is a minute ago, and no call had to be repeated."""
    text = told(code, quiet_s=61.0, open_s=0.4)
    assert text.startswith(f"'{NAME}' has to start again: probably another process has begun to write as '{NAME}' ")
    assert text.endswith("the broker has ended its transaction, which was open for 0.4 s, and the restart settles it")


def test_another_error_is_told_as_it_is() -> None:
    assert told(KafkaError.TOPIC_AUTHORIZATION_FAILED, quiet_s=1.0) == "Kafka: the broker's words"


@pytest.mark.parametrize(
    ("code", "trouble"),
    [
        (KafkaError._TRANSPORT, True),
        (KafkaError._ALL_BROKERS_DOWN, True),
        (KafkaError._RESOLVE, True),
        (KafkaError._SSL, False),
        (KafkaError._MAX_POLL_EXCEEDED, False),
    ],
)
def test_a_connection_remembers_when_a_broker_was_away(code: int, trouble: bool) -> None:
    """One of several brokers is enough; the time counts from the end of a failure."""
    connection = Connection(quiet=True)
    connection.on_error(KafkaError(code))
    assert (connection.quiet_s < 60) is trouble
    connection._failed_at = -math.inf
    connection.on_answer()
    assert (connection.quiet_s < 60) is (code in (KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE))
