"""The desk: a thread on which many events are judged at once, each by its suites' conversations."""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import orjson
import structlog

from ragweir.errors import ConfigurationError
from ragweir.metrics.judged.answers import Fault
from ragweir.metrics.judged.driver import Call, Completion, Judged, judge
from ragweir.metrics.judged.suite import Embed
from ragweir.metrics.metric import Null
from ragweir.streams.judging import cache
from ragweir.streams.judging.asking import TEMPERATURE, chat, embedding, named
from ragweir.streams.judging.calling import Caller, GaveUp, Tab, Tally, Value
from ragweir.streams.judging.embedder import Embedder, LocalEmbedder
from ragweir.streams.judging.job import Ended, Job, JobId
from ragweir.streams.judging.limits import Limits
from ragweir.streams.records import Count
from ragweir.streams.settings import JudgeSettings

if TYPE_CHECKING:
    from ragweir.streams.judging.client import Client

_WORD_BYTES = 8
"""Of marks and check words: nobody guesses 64 bits."""
_CHECK = "[[check]]"
"""Stands in stored answers for the check word, which is another for each request."""
_NOT_CACHED = Null("not in the cache")
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class _Run:
    """One job on the desk."""

    job: Job
    tab: Tab
    task: asyncio.Task[None] | None = None


def client_of(settings: JudgeSettings) -> Client:
    """What calls the endpoint.

    Raises:
        ConfigurationError: if the key cannot be read, or a package is missing.
    """
    try:
        from ragweir.streams.judging.client import Client  # noqa: PLC0415 (half a second that only a desk is worth)
    except ImportError as error:
        raise ConfigurationError(f"the judge needs the package {error.name}: pip install 'ragweir[judge]'") from None
    return Client(settings)


class LiveDesk:
    """Works on jobs by calling the endpoint. One thread may use it; no method but `close` waits.

    Args:
        settings: of the judge.
        embedder: makes what gives vectors where the endpoint does not; called when first needed.
        window_s: what `requests_per_minute` and `tokens_per_minute` take for a minute.
        backoff_s: how long a failed call waits before it is repeated at first.

    Raises:
        ConfigurationError: if there is no endpoint, its key cannot be read, or a package is missing.
    """

    def __init__(
        self,
        settings: JudgeSettings,
        *,
        embedder: Callable[[], Embedder] = LocalEmbedder,
        window_s: float = 60.0,
        backoff_s: float = 0.5,
    ) -> None:
        self._settings, self._make_embedder = settings, embedder
        self._tally = Tally()
        self._live: dict[JobId, _Run] = {}
        self._done: deque[tuple[_Run, Ended]] = deque()
        self._client = self._caller = None
        if not settings.cached_only:
            limits = Limits(
                settings.requests_per_minute, settings.tokens_per_minute, settings.slots, time.monotonic, window_s
            )
            if limits.closed_s:
                # A process before this one may have used the limits up.
                _log.info(
                    "the limits may be used up by an earlier process; waiting for a minute",
                    first_call_in_s=limits.closed_s,
                )
            self._client = client_of(settings)
            self._caller = Caller(
                settings, self._client.send, limits, self._tally, time.monotonic, self._is_full, backoff_s
            )
        self._cache = cache.Cache(settings.cache_entries, settings.cache_file)
        self._local = ThreadPoolExecutor(1, thread_name_prefix="embedder")
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._serve, name="judge-desk", daemon=True)
        self._thread.start()

    def start(self, job: Job) -> None:
        """Begin a job.

        Raises:
            ValueError: if `judge.concurrency` jobs are under way, or this one is.
        """
        if self._is_full() or job.id in self._live:
            raise ValueError("more jobs than judge.concurrency, or the same one twice")
        run = self._live[job.id] = _Run(job, Tab(job.allowance))
        self._loop.call_soon_threadsafe(self._begin, run)

    def ended(self) -> list[Ended]:
        """The jobs that ended since last asked, in any order."""
        ended = []
        for _ in range(len(self._done)):
            run, end = self._done.popleft()
            # A job that was cancelled, and perhaps begun again since, is another run.
            if self._live.get(end.id) is run:
                del self._live[end.id]
                ended.append(end)
        return ended

    def cancel(self, jobs: Collection[JobId]) -> None:
        """Forget jobs: they are not heard of again. Calls under way are broken off."""
        runs = [run for run in (self._live.pop(each, None) for each in jobs) if run is not None]
        self._loop.call_soon_threadsafe(self._break_off, runs)

    @property
    def shut(self) -> str:
        """Why no new job should be started now; empty while the endpoint is well, or only a new job could tell."""
        return self._caller.shut if self._caller else ""

    def counts(self) -> Mapping[Count, int]:
        """What was counted since last asked, by instruments of the telemetry table."""
        return self._tally.counts()

    def latencies(self) -> list[float]:
        """How long the calls that came back since last asked took, in seconds."""
        return self._tally.latencies()

    def levels(self) -> Mapping[Count, float]:
        """What gauges of the telemetry table are to show now."""
        return {
            ("ragweir_judge_breaker",): self._caller.breaker.level if self._caller else 0.0,
            ("ragweir_judge_in_flight",): float(len(self._live)),
        }

    def close(self) -> None:
        """Break everything off, and wait until connections, file and thread are closed."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def _is_full(self) -> bool:
        return len(self._live) >= self._settings.concurrency

    # What follows runs on the desk's own thread.

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_closed())

    async def _until_closed(self) -> None:
        await self._closing.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._local.shutdown(cancel_futures=True)
        if self._client:
            await self._client.aclose()
        self._cache.close()

    def _begin(self, run: _Run) -> None:
        run.task = self._loop.create_task(self._work(run))
        self._tasks.add(run.task)
        run.task.add_done_callback(self._tasks.discard)

    def _break_off(self, runs: Collection[_Run]) -> None:
        for run in runs:
            if run.task:
                run.task.cancel()

    async def _work(self, run: _Run) -> None:
        job, usage = run.job, run.tab.usage
        try:
            end = Ended(job.id, await self._judged(job, run.tab), usage)
        except GaveUp as error:
            end = Ended(job.id, None, usage, str(error))
        except Exception as error:
            _log.error("judging raised", error=type(error).__name__)
            end = Ended(job.id, None, usage, f"judging raised {type(error).__name__}")
        self._done.append((run, end))

    async def _judged(self, job: Job, tab: Tab) -> Judged:
        conversation = judge(job.case, job.suites, partial(secrets.token_hex, _WORD_BYTES))
        reply: Value | None = None
        while True:
            try:
                said = conversation.send(reply)
            except StopIteration as end:
                judged: Judged = end.value
                return judged
            if isinstance(said, Embed):
                reply = await self._embedded(said, tab)
            else:
                reply = await self._answered(said, tab)

    async def _answered(self, call: Call, tab: Tab) -> Value:
        """The answer to a question. A usable one is kept for it, that of a repair too."""
        key = cache.key(self._settings.model, TEMPERATURE, call.identity)
        if call.repairs:
            self._tally.add("ragweir_judge_repairs_total")
        elif (stored := self._cache.get(key)) is not None:
            model, text = orjson.loads(stored)
            tab.usage.model = named(model, self._settings.model)
            tab.usage.cached += 1
            self._tally.add("ragweir_judge_calls_total", "cached")
            return Completion(text.replace(_CHECK, call.check))
        if self._caller is None:
            return _NOT_CACHED
        reply = await self._caller.answer(chat(call, self._settings), tab)
        if isinstance(reply, Completion) and not isinstance(call.read(reply), Fault):
            kept = [tab.usage.model, reply.text.replace(call.check, _CHECK)]
            self._cache.put(key, orjson.dumps(kept).decode())
        return reply

    async def _embedded(self, embed: Embed, tab: Tab) -> Value:
        model = self._settings.embedding_model
        if model is None or embed.tokens:
            return await self._loop.run_in_executor(self._local, self._embed, embed)
        if self._caller is None:
            return _NOT_CACHED
        return await self._caller.answer(embedding(embed, model), tab)

    def _embed(self, embed: Embed) -> Value:
        """On the embedder's thread."""
        embedder = self._embedder
        return embedder if isinstance(embedder, Null) else embedder.embed(embed)

    @cached_property
    def _embedder(self) -> Embedder | Null:
        try:
            return self._make_embedder()
        except ConfigurationError:
            return Null("embeddings need the extra semantic, or judge.embedding_model")
