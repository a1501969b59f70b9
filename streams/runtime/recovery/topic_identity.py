"""Topic identity: Kafka's ids of topics, which differ between a topic and one that is created with its name later.

A consumer does not detect that a topic was deleted and created again: it reads the new topic at its offset in the old
one. So the ids are read again between the last poll of a batch and its commit, and each offset is committed with the id
of its topic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._topic import TopicDescription

from ragweir.errors import Interrupted, RestartRequired
from ragweir.streams.runtime.kafka.client import SILENCE_SECONDS, Connection, build, client_properties
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_IDLE_SECONDS = 5.0
"""Time after which the ids are read again while nothing is committed."""
_CALL_SECONDS = 2.0
_GIVE_UP_SECONDS = 60.0
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class TopicVersion:
    """A topic under its current id."""

    id: str
    partitions: int


class TopicIdentity:
    """Reads the ids of topics and detects changed ones; `on_wait` is called between two attempts to read them.

    For the outputs only the partition counts are needed. The agent has read the topics of `reads` under these ids.
    """

    def __init__(
        self,
        settings: Settings,
        inputs: Sequence[str],
        connection: Connection,
        on_wait: Callable[[], object],
        stopped: Callable[[], bool],
        outputs: Sequence[str] = (),
        reads: Mapping[str, str] | None = None,
    ) -> None:
        self.admin = build(AdminClient, client_properties(settings))
        self._inputs, self._topics, self._connection = tuple(inputs), [*inputs, *outputs], connection
        self._on_wait, self._stopped = on_wait, stopped
        self.topics = {name: TopicVersion(read, 0) for name, read in (reads or {}).items()}
        """The versions of the topics when their partitions were assigned, or when the agent read them."""
        self._topics += self.topics
        self._counted = frozenset(self._topics) - self.topics.keys()
        self.partitions: Mapping[str, int] = {}
        """The partition count of each input and output that exists, from the newest answer to `ask`."""
        self.missing: frozenset[str] = frozenset()
        """The inputs that do not exist, from the newest answer to `ask`."""
        self.were_missing: set[str] = set()
        """The inputs that some answer to `ask` had not."""
        self._asked: Mapping[str, Future[TopicDescription]] | None = None
        self._ask_at = 0.0

    def learn(self, topics: Collection[str]) -> Mapping[str, TopicVersion]:
        """Read and store the current versions of topics; wait for the answer.

        Raises:
            Interrupted: if `stopped` returns true meanwhile.
            RestartRequired: if there is no answer for a minute.
        """
        self._asked = None
        now = self._answered(self._ask(topics), topics)
        self.topics |= now
        return now

    def ask(self) -> None:
        """Request the versions of all topics, without waiting for the answer."""
        self._asked = self._ask(self._topics)
        self._ask_at = machine.monotonic() + _IDLE_SECONDS

    def discard_answer(self) -> None:
        """Forget the request: records will be read before the next commit."""
        self._asked = None

    @property
    def is_asked(self) -> bool:
        """True if versions were requested and the answer was not used."""
        return self._asked is not None

    @property
    def due(self) -> bool:
        """True if the last request is some seconds old."""
        return machine.monotonic() >= self._ask_at

    def changed(self) -> Mapping[str, TopicVersion]:
        """Return the topics whose ids have changed since their partitions were assigned; wait for the last answer.

        A topic that does not exist now is left out, and is one of `missing`.

        Raises:
            Interrupted: if `stopped` returns true meanwhile.
            RestartRequired: if there is no answer for a minute.
        """
        asked, self._asked = self._asked or self._ask(self._topics), None
        now = self._answered(asked, self._topics)
        self.partitions = {name: topic.partitions for name, topic in now.items() if name in self._counted}
        self.missing = frozenset(self._inputs) - now.keys()
        self.were_missing |= self.missing
        return {name: topic for name, topic in now.items() if name in self.topics and self.topics[name].id != topic.id}

    def _ask(self, topics: Collection[str]) -> Mapping[str, Future[TopicDescription]]:
        if not topics:
            return {}
        return self.admin.describe_topics(TopicCollection(list(topics)), request_timeout=_CALL_SECONDS)

    def _answered(
        self, asked: Mapping[str, Future[TopicDescription]], topics: Collection[str]
    ) -> dict[str, TopicVersion]:
        began = machine.monotonic()
        while True:
            try:
                found = {name: self._topic(future) for name, future in asked.items()}
                return {name: topic for name, topic in found.items() if topic is not None}
            except (KafkaException, FutureTimeoutError) as error:
                reason = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
            if self._stopped():
                raise Interrupted
            waited = machine.monotonic() - began
            if waited > SILENCE_SECONDS:
                self._connection.on_lost(reason)
            if waited > _GIVE_UP_SECONDS:
                raise RestartRequired(f"Kafka does not describe the topics ({reason}); a restart settles it")
            self._on_wait()
            machine.sleep(_PAUSE_SECONDS)
            asked = self._ask(topics)

    @staticmethod
    def _topic(future: Future[TopicDescription]) -> TopicVersion | None:
        """Return the topic of an answer; None if there is none. Raise KafkaException or TimeoutError to ask again."""
        try:
            described = future.result(2 * _CALL_SECONDS)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise
        return TopicVersion(str(described.topic_id), len(described.partitions))
