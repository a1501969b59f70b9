"""The judge pool that calls an endpoint: one thread with an event loop, and on it a task for each job.

It owns the connections, the rate limits, the cache, the embedder and the counts, which all jobs share.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import TYPE_CHECKING

import structlog
from typing_extensions import override

from ragweir.errors import ConfigurationError
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Count, Measurements
from ragweir.streams.services.judge.cache import Cache
from ragweir.streams.services.judge.call_stats import CallStats
from ragweir.streams.services.judge.caller import Caller, JudgingFailed
from ragweir.streams.services.judge.embedder import Embedder, EmbedderThread, LocalEmbedder
from ragweir.streams.services.judge.job import DayOver, Job, JobBudget, JobId, JobResult, JudgePool
from ragweir.streams.services.judge.judge_conversation import JudgeConversation
from ragweir.streams.services.judge.rate_limit import RateLimits
from ragweir.streams.settings import JudgeSettings

if TYPE_CHECKING:
    from ragweir.streams.services.judge.client import Client

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def build_client(settings: JudgeSettings) -> Client:
    """Return the client of the endpoint; raises ConfigurationError if its key or a package is missing."""
    try:
        from ragweir.streams.services.judge.client import Client  # noqa: PLC0415 - importing it takes half a second
    except ImportError as error:
        raise ConfigurationError(f"the judge needs the package {error.name}: pip install 'ragweir[judge]'") from None
    return Client(settings)


def rate_limits(settings: JudgeSettings, window_s: float = 60.0, *, granted: bool = False) -> RateLimits:
    """Return a slot's share of the rate limits; see `RateLimits`."""
    given = settings.requests_per_minute, settings.tokens_per_minute, settings.slots
    return RateLimits(*given, machine.monotonic, window_s, granted=granted)


class LiveJudgePool(JudgePool):
    """Works on jobs by calling the endpoint. One thread may use it; no method but `close` blocks.

    Args:
        settings: the judge's.
        embedder: makes the embedder for the vectors that the endpoint does not give, when it is first needed.
        window_s: the length of the minute in `requests_per_minute` and `tokens_per_minute`.
        backoff_s: the first backoff after a failed call.
        limits: the rate limits; None to keep them in this process alone.

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
        limits: RateLimits | None = None,
    ) -> None:
        self._concurrency = settings.concurrency
        self._stats = CallStats()
        self._runs: dict[JobId, Future[JobResult]] = {}
        self._client = self._caller = None
        if not settings.cached_only:
            limits = limits or rate_limits(settings, window_s)
            if limits.closed_s:
                _log.info("an earlier process may have used up the rate limits", first_call_within_s=limits.closed_s)
            self._client = build_client(settings)
            self._caller = Caller(
                settings, self._client.send, limits, self._stats, machine.monotonic, self._is_full, backoff_s
            )
        self._cache = Cache(settings.cache_entries, settings.cache_file)
        self._embedder = EmbedderThread(embedder)
        self._conversation = JudgeConversation(settings, self._caller, self._cache, self._embedder.embed, self._stats)
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="judge-pool", daemon=True)
        self._thread.start()

    @override
    def start(self, job: Job) -> None:
        if self._is_full() or job.id in self._runs:
            raise ValueError("more jobs than judge.concurrency, or one twice")
        self._runs[job.id] = asyncio.run_coroutine_threadsafe(self._work(job), self._loop)

    @override
    def take_results(self) -> list[JobResult]:
        ended = [job_id for job_id, run in self._runs.items() if run.done() and not run.cancelled()]
        return [self._runs.pop(each).result() for each in ended]

    @override
    def cancel(self, jobs: Collection[JobId]) -> None:
        for each in jobs:
            if run := self._runs.pop(each, None):
                run.cancel()

    @property
    @override
    def unavailable_reason(self) -> str:
        return self._caller.unavailable_reason if self._caller else ""

    @override
    def drain_metrics(self) -> Measurements:
        breaker = self._caller.breaker.level if self._caller else 0.0
        levels: dict[Count, float] = {
            ("ragweir_judge_breaker",): breaker,
            ("ragweir_judge_in_flight",): float(len(self._runs)),
        }
        return self._stats.drain(levels)

    def close(self) -> None:
        """Cancel all jobs, and wait until connections, file and thread are closed."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def _is_full(self) -> bool:
        return len(self._runs) >= self._concurrency

    # On the pool's thread.

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._until_closed())

    async def _until_closed(self) -> None:
        await self._closing.wait()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._embedder.close()
        if self._client:
            await self._client.aclose()
        self._cache.close()

    async def _work(self, job: Job) -> JobResult:
        budget = JobBudget(job)
        try:
            return JobResult(job.id, await self._conversation.hold(job, budget), budget.usage)
        except JudgingFailed as error:
            return JobResult(job.id, None, budget.usage, str(error))
        except DayOver as error:
            return JobResult(job.id, None, budget.usage, str(error), day_over=True)
        except Exception as error:
            _log.error("judging raised", error=type(error).__name__)
            return JobResult(job.id, None, budget.usage, f"judging raised {type(error).__name__}")
