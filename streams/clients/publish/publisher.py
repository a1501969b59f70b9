"""Publishers: the way from an application's threads to Kafka, which never blocks them and never raises."""

from __future__ import annotations

import atexit
import logging
import os
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from ragweir.errors import RagweirError, Rejected, Unreachable
from ragweir.streams.clients.publish.backlog import Backlog, CapturedEvent, PublishStats
from ragweir.streams.clients.publish.drop_log import DropLog
from ragweir.streams.clients.publish.recorders import InteractionRecorder
from ragweir.streams.clients.publish.snapshot import snapshot
from ragweir.streams.runtime.machine import machine

if TYPE_CHECKING:
    from ragweir.streams.clients.publish.sender import Sender

log = logging.getLogger("ragweir.publish")

_LARGEST_SHARE = 4
"""One event takes at most this fraction of the queue's memory."""
_IDLE_S = 5.0
_IN_FLIGHT_S = 0.05
_JOIN_S = 0.5
_FORK_WAIT_S = 60.0
"""Time in seconds that a fork waits for the thread's imports, which take a third of a second, and more than 10 on a
starved machine. It ends, as the fork may be in the middle of an import that the thread waits for."""
_CONNECT_WAIT_S = 2.0
"""Time in seconds that a fork waits for the answer to the first event, before which its client looks up addresses."""
_LOOK_UP_S = 20.0
_NOTHING = object()


class Publisher:
    """Publishes interactions, and feedback on answers, to Kafka, from any thread or task.

    The caller's thread takes times and copies the event to a queue, which takes some microseconds. Checking, encoding
    and sending are done by a thread of its own, which the first event starts. Nothing that is passed makes a call raise
    or wait: an event that cannot be sent is dropped, counted by reason in `stats`, and logged by the logger
    `ragweir.publish`, at most once a minute for each reason.

    Settings that are not given here are read from `ragweir.toml` of the working folder and from RAGWEIR_ variables, as
    those of ragweir's commands. `ragweir.publish` is a publisher without any given.

    After a fork the child's publisher is empty, and connects by itself; events of the parent stay with the parent.
    At the end of the process, events that wait are sent within `exit_timeout_s`.

    >>> publisher = Publisher(bootstrap_servers="127.0.0.1:9092", application="support-bot")
    >>> publisher.stats
    PublishStats(published=0, dropped=mappingproxy({'queue_full': 0, 'invalid': 0, 'too_large': 0, 'not_delivered': 0,
    'after_close': 0}), waiting=0, queued_bytes=0)

    Args:
        bootstrap_servers: addresses of Kafka brokers; the setting `kafka.bootstrap_servers`.
        topic: topic to publish interactions to; the setting `publish.topic`.
        client: properties of librdkafka; the setting `kafka.client`.
        application: application of events that have none; the setting `publish.application`.
        environment: environment of events that have none; the setting `publish.environment`.
        pipeline_version: pipeline version of events that have none; the setting `publish.pipeline_version`.
        labels: labels of all events; the setting `publish.labels`.
        settings_file: file to read in place of `ragweir.toml`.
        queue_events: maximum number of events that wait to be sent.
        queue_bytes: maximum of their estimated memory, in bytes. One event may take a quarter of it.
        exit_timeout_s: time to send waiting events at the end of the process, in seconds.
    """

    def __init__(
        self,
        *,
        bootstrap_servers: str | None = None,
        topic: str | None = None,
        client: Mapping[str, str | int | float | bool] | None = None,
        application: str | None = None,
        environment: str | None = None,
        pipeline_version: str | None = None,
        labels: Mapping[str, str] | None = None,
        settings_file: str | os.PathLike[str] | None = None,
        queue_events: int = 10_000,
        queue_bytes: int = 32 * 1024 * 1024,
        exit_timeout_s: float = 2.0,
    ) -> None:
        self._overrides: dict[str, dict[str, Any]] = {
            "kafka": {"bootstrap_servers": bootstrap_servers, "client": None if client is None else dict(client)},
            "publish": {
                "topic": topic,
                "application": application,
                "environment": environment,
                "pipeline_version": pipeline_version,
                "labels": None if labels is None else dict(labels),
            },
        }
        self._settings_file = settings_file
        self._queue_limits = queue_events, queue_bytes
        self.exit_timeout_s = exit_timeout_s
        """Time to send waiting events at the end of the process, in seconds."""
        self._start_empty()
        _publishers.add(self)

    def _start_empty(self) -> None:
        self._lock = threading.RLock()
        self._backlog = Backlog(*self._queue_limits)
        self._thread: threading.Thread | None = None

    @overload
    def publish(self, event: Mapping[str, Any], /) -> None: ...

    @overload
    def publish(self, /, *, query: str = ..., **fields: Any) -> InteractionRecorder: ...

    def publish(self, event: Any = _NOTHING, /, **fields: Any) -> InteractionRecorder | None:
        """Publish a whole event, or record one in a `with` block.

        >>> publisher = Publisher(application="support-bot")
        >>> with publisher.publish(query="Who wrote the first program?") as event:
        ...     with event.retrieval("wiki"):
        ...         event.contexts = ["Ada Lovelace wrote it in 1843."]
        ...     with event.llm("gpt-4o-mini"):
        ...         event.response = "Ada Lovelace."
        >>> _ = publisher.close(timeout=0)  # an application leaves this to the end of the process

        Args:
            event: a mapping of the fields of an interaction. An `event_id` is added if it has none; its time is that of
                the call if it has none.
            fields: fields of an interaction that is recorded; see `InteractionRecorder`.

        Returns:
            A context manager that takes the times of the interaction and publishes it at the end of its block; None for
            a whole event.
        """
        if event is _NOTHING:
            return InteractionRecorder(_Destination(self, self._backlog), fields)
        now = machine.time_ns()
        self._capture(self._backlog, lambda: CapturedEvent({**event, **fields} if fields else event, now))
        return None

    __call__ = publish

    def feedback(self, name: Any = _NOTHING, value: Any = _NOTHING, /, **fields: Any) -> None:
        """Publish what a user says of an answer, after it was given or before it is evaluated.

        >>> publisher = Publisher()
        >>> publisher.feedback("thumbs", "down", event_id="01JD9Z5W7K", giver="user-7")
        >>> publisher.feedback("thumbs", None, event_id="01JD9Z5W7K", giver="user-7")  # takes it back
        >>> _ = publisher.close(timeout=0)  # an application leaves this to the end of the process

        Args:
            name: kind of the feedback, such as `thumbs`, `edited`, `copied` or `escalated`.
            value: number, label, true or false; None takes earlier feedback of the name and giver back.
            fields: `event_id`, or `trace_id` with an optional `span_id`; `giver`, the person who gives it; `time`, that
                of the call if it is left out. Others are not kept.
        """
        now = machine.time_ns()
        given = {key: each for key, each in (("name", name), ("value", value)) if each is not _NOTHING}
        self._capture(self._backlog, lambda: CapturedEvent({**fields, **given}, now, is_feedback=True))

    def _capture(self, backlog: Backlog, make: Callable[[], CapturedEvent]) -> None:
        if backlog is not self._backlog:
            return  # Recorded before a fork: the parent publishes it.
        try:
            if self._thread is None and not self._start():
                backlog.drop("not_delivered", "no thread can be started")
                return
            if backlog.turns_away():
                return
            event = make()
            texts = [text for span in event.spans for text in (span.name, span.error)]
            (fields, _), size = snapshot((event.fields, texts), self._queue_limits[1] // _LARGEST_SHARE)
            backlog.offer(event._replace(fields=fields), size)
        except Rejected as error:
            backlog.drop("too_large" if error.error_class == "too_large" else "invalid", error.message)
        except Exception as error:  # of the application's objects; or its stack or memory is at its end
            backlog.drop("invalid", f"reading it raised {type(error).__name__}")

    def _start(self) -> bool:
        """Start the thread; return False if this is not possible, as at the end of the process."""
        with self._lock:
            if self._thread is not None or self._backlog.closed:
                return True
            thread = threading.Thread(target=self._run, args=(self._backlog,), name="ragweir-publish", daemon=True)
            self._thread = thread
            try:
                _flush_at_end_of_child()
                thread.start()
            except RuntimeError:
                self._thread = None
                return False
            return True

    def _run(self, backlog: Backlog) -> None:
        """Send events until the backlog is closed and empty, or stopped."""
        drops = DropLog()
        sender, problem = self._sender(backlog)
        while not backlog.stopped and (backlog.stats.waiting or not backlog.closed):
            try:
                event = backlog.take(_IN_FLIGHT_S if sender and sender.in_flight else _IDLE_S)
                if sender is None and event is not None:
                    backlog.settle("not_delivered", problem)
                elif sender is not None and event is not None:
                    sender.send(event)
                if sender is not None:
                    sender.poll()
                drops.report(backlog.stats.dropped, backlog.notes)
            except Exception:  # of the application's handlers and filters of logs  # noqa: S112
                continue
        if sender is not None:
            sender.stop()
        backlog.reached.set()
        backlog.abandon("the process ended before")
        with suppress(Exception):
            drops.report(backlog.stats.dropped, backlog.notes, final=True)

    def _sender(self, backlog: Backlog) -> tuple[Sender | None, str]:
        """Return a sender, or None and the reason."""
        try:
            _check_look_up()
            with _starting:  # A child that is forked meanwhile would have half of a module.
                from pathlib import Path  # noqa: PLC0415 - as below

                from ragweir.streams.clients.publish.sender import Sender  # noqa: PLC0415 - takes a third of a second
                from ragweir.streams.settings import load_publisher  # noqa: PLC0415 - as above

                file = None if self._settings_file is None else Path(self._settings_file)
                return Sender(load_publisher(file, self._overrides), backlog), ""
        except Exception as error:
            problem = str(error) if isinstance(error, RagweirError) else f"{type(error).__name__}: {error}"
            with suppress(Exception):
                log.error("nothing is published: %s", problem)
            return None, problem

    @property
    def stats(self) -> PublishStats:
        """Counts of this process: what was published, dropped by reason, and waits."""
        return self._backlog.stats

    def flush(self, timeout: float = 2.0) -> bool:
        """Wait until all events are acknowledged or dropped; return False after the timeout, in seconds."""
        return self._backlog.wait(timeout)

    def close(self, timeout: float = 2.0) -> bool:
        """Take no further event, wait as `flush` does, and end the thread; what then still waits is dropped.

        Returns:
            True if nothing was left at the timeout.
        """
        backlog, thread = self._backlog, self._thread
        backlog.close()
        done = backlog.wait(timeout)
        backlog.stop()
        if thread is not None:
            thread.join(_JOIN_S)
        return done

    def __enter__(self) -> Self:
        """Return the publisher, whose block closes it."""
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        """Close the publisher."""
        self.close()


class _Destination:
    """The publisher in the process in which a recorder began."""

    __slots__ = ("_backlog", "_publisher")

    def __init__(self, publisher: Publisher, backlog: Backlog) -> None:
        self._publisher = publisher
        self._backlog = backlog

    def capture(self, make: Callable[[], CapturedEvent]) -> None:
        self._publisher._capture(self._backlog, make)


_FORKED_IN_LOOK_UP = (
    "the process was forked while another thread looked up an address, after which the C library looks up none; "
    "fork before the first event, or start processes by spawn"
)


def _check_look_up() -> None:
    """Check that this process can look up addresses.

    The lock of glibc's getaddrinfo stays locked in a child that is forked while another thread holds it. A client would
    wait for it for ever, and the end of the process for the client.

    Raises:
        Unreachable: if it cannot.
    """
    if _forked:
        # With the flag that librdkafka has, without which glibc does not take the lock.
        look_up = threading.Thread(
            target=socket.getaddrinfo,
            args=("127.0.0.1", None),
            kwargs={"flags": socket.AI_ADDRCONFIG},
            daemon=True,
        )
        look_up.start()
        look_up.join(_LOOK_UP_S)
        if look_up.is_alive():
            raise Unreachable(_FORKED_IN_LOOK_UP)


_publishers: weakref.WeakSet[Publisher] = weakref.WeakSet()
_starting = threading.Lock()
"""Held while the thread of a publisher imports modules, its own and that of `kafka.oauth`, and makes its client."""
_forking = False
"""True if a fork holds `_starting`."""
_forked = False
"""True if this process is a child that was forked after this module was imported."""


def _close_all() -> None:
    """Close all publishers of this process, at its end."""
    began = machine.monotonic()
    for publisher in list(_publishers):
        publisher.close(max(0.0, publisher.exit_timeout_s - (machine.monotonic() - began)))


def _flush_at_end_of_child() -> None:
    """Have `multiprocessing` close the publishers of its process, whose end runs no functions of `atexit`."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize  # noqa: PLC0415 - only where it is in use

        Finalize(None, _close_all, exitpriority=100)


def _before_fork() -> None:
    global _forking  # noqa: PLW0603 - a hook has no other memory
    _forking = _starting.acquire(timeout=_FORK_WAIT_S)
    for publisher in list(_publishers):
        publisher._backlog.reached.wait(_CONNECT_WAIT_S)


def _after_fork_in_parent() -> None:
    if _forking:
        _starting.release()


def _after_fork_in_child() -> None:
    global _forked, _starting  # noqa: PLW0603 - as above; the thread that may hold the lock does not exist in the child
    _forked = True
    _starting = threading.Lock()
    for publisher in list(_publishers):
        publisher._start_empty()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
