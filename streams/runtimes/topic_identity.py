"""Which topic a name stands for: Kafka's id of it, by which a topic that was deleted and made again is told apart.

A consumer does not notice: it goes on reading the new topic at the offset that it had reached in the old one. So the
ids are asked for again between the last poll of a batch and its commit, and the id that an offset belongs to is
committed with the offset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._topic import TopicDescription

from ragweir.errors import Interrupted, RestartRequired
from ragweir.streams.kafka.client import SILENCE_S, Connection, build, client_properties
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_IDLE_S = 5.0
"""The time in seconds after which the ids are asked for again while nothing is committed."""
_CALL_S = 2.0
_GIVE_UP_S = 60.0
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class TopicVersion:
    """A topic as it is now."""

    id: str
    partitions: int


class TopicIdentity:
    """Asks Kafka for the ids of topics, and says which of them have changed.

    Args:
        settings: how to reach Kafka.
        topics: by their full names.
        connection: is told of a broker that keeps silent.
        waiting: called while Kafka is asked again.
        stopped: says whether to stop waiting.
    """

    def __init__(
        self,
        settings: Settings,
        topics: Sequence[str],
        connection: Connection,
        waiting: Callable[[], object],
        stopped: Callable[[], bool],
    ) -> None:
        self._admin = build(AdminClient, client_properties(settings))
        self._topics, self._connection = list(topics), connection
        self._waiting, self._stopped = waiting, stopped
        self.known: dict[str, TopicVersion] = {}
        """The topics as they were when partitions of them were taken over."""
        self.partitions: Mapping[str, int] = {}
        """The number of partitions of each topic, by the newest answer to `ask`."""
        self._asked: Mapping[str, Future[TopicDescription]] | None = None
        self._ask_at = 0.0

    def learn(self, topics: Collection[str]) -> Mapping[str, TopicVersion]:
        """Return how topics are now, and keep it; waits for the answer.

        Raises:
            Interrupted: if told to stop meanwhile.
            RestartRequired: if there is no answer for a minute.
        """
        self._asked = None
        now = self._answered(self._ask(topics), topics)
        self.known |= now
        return now

    def ask(self) -> None:
        """Ask how the topics are, without waiting for the answer."""
        self._asked = self._ask(self._topics)
        self._ask_at = time.monotonic() + _IDLE_S

    @property
    def due(self) -> bool:
        """True where the last question is some seconds old."""
        return time.monotonic() >= self._ask_at

    def changed(self) -> Mapping[str, TopicVersion]:
        """Return the topics that are others than when they were learnt; waits for the answer to the last question.

        A topic that was deleted and is not there again is none of them: it may have been read to its end.

        Raises:
            Interrupted: if told to stop meanwhile.
            RestartRequired: if there is no answer for a minute.
        """
        asked, self._asked = self._asked or self._ask(self._topics), None
        now = self._answered(asked, self._topics)
        self.partitions = {name: topic.partitions for name, topic in now.items()}
        return {name: topic for name, topic in now.items() if name in self.known and self.known[name].id != topic.id}

    def _ask(self, topics: Collection[str]) -> Mapping[str, Future[TopicDescription]]:
        if not topics:
            return {}
        return self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=_CALL_S)

    def _answered(
        self, asked: Mapping[str, Future[TopicDescription]], topics: Collection[str]
    ) -> dict[str, TopicVersion]:
        began = time.monotonic()
        while True:
            try:
                found = {name: self._topic(future) for name, future in asked.items()}
                return {name: topic for name, topic in found.items() if topic is not None}
            except (KafkaException, FutureTimeoutError) as error:
                why = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
            if self._stopped():
                raise Interrupted
            waited = time.monotonic() - began
            if waited > SILENCE_S:
                self._connection.lost(why)
            if waited > _GIVE_UP_S:
                raise RestartRequired(f"Kafka does not say which topics there are ({why}); a restart settles it")
            self._waiting()
            time.sleep(_PAUSE_S)
            asked = self._ask(topics)

    @staticmethod
    def _topic(future: Future[TopicDescription]) -> TopicVersion | None:
        """The topic of an answer; None where there is none.

        Raises:
            KafkaException, TimeoutError: if it has to be asked for again.
        """
        try:
            described = future.result(2 * _CALL_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise
        return TopicVersion(str(described.topic_id), len(described.partitions))
