"""Topics that were created are listed when `create_topics` returns, as others look for them at once."""

from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ragweir.streams.runtime.kafka import topics
from ragweir.streams.runtime.machine import machine


class SlowBroker:
    """A broker that lists a topic at the third question, or never; the first one fails."""

    def __init__(self, at: int) -> None:
        self.asked, self.at = 0, at

    def list_topics(self, timeout: float) -> Any:
        assert timeout > 0
        self.asked += 1
        if self.asked == 1:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return type("Listed", (), {"topics": {"t": None} if self.asked >= self.at else {}})


@pytest.mark.slow
@pytest.mark.parametrize(("at", "asked"), [(3, range(3, 4)), (1_000, range(4, 1_000))])
def test_created_topics_are_waited_for(monkeypatch: pytest.MonkeyPatch, at: int, asked: range) -> None:
    """Not for ever, as somebody may create topics and not see them."""
    clock = iter(range(1_000))
    monkeypatch.setattr(machine, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(machine, "sleep", lambda _: None)
    broker = SlowBroker(at)
    topics._wait_until_listed(cast("AdminClient", broker), ["t"])
    assert broker.asked in asked
