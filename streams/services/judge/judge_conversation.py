"""The conversation of a job: its questions, and their answers from the cache, the endpoint or the embedder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import orjson

from ragweir.metrics.judged.answer_parsing import AnswerFault
from ragweir.metrics.judged.driver import ChatCall, Completion, DecisionCall, DecisionReply, Judged, judge
from ragweir.metrics.judged.suite import Embed, Vectors
from ragweir.metrics.metric import Null
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.judge import cache
from ragweir.streams.services.judge.call_stats import CallStats
from ragweir.streams.services.judge.caller import Caller
from ragweir.streams.services.judge.decisions import decisions
from ragweir.streams.services.judge.job import Job, JobBudget
from ragweir.streams.services.judge.protocol import JudgeValue, chat, embedding, named
from ragweir.streams.settings import JudgeSettings

_WORD_BYTES = 8
"""The length of marks and check words: 64 bits cannot be guessed."""
_CHECK = "[[check]]"
"""The placeholder in cached answers for the check word, which differs by request."""
_NOT_CACHED = Null("not in the cache")


class JudgeConversation:
    """Holds the conversations of many jobs on one event loop.

    Without a `caller` only the cache may answer. `embed` computes the vectors that the endpoint does not give.
    """

    def __init__(
        self,
        settings: JudgeSettings,
        caller: Caller | None,
        answers: cache.Cache,
        embed: Callable[[Embed], Awaitable[Vectors | Null]],
        stats: CallStats,
    ) -> None:
        self._settings, self._caller, self._answers = settings, caller, answers
        self._embed_locally, self._stats = embed, stats

    async def hold(self, job: Job, budget: JobBudget) -> Judged:
        """Ask the questions of a job's suites one after the other, and return their findings.

        Raises:
            JudgingFailed: if calls failed as often as allowed.
            DayOver: if nothing is reserved on the day of its next call.
        """
        questions = judge(job.case, job.suites, partial(machine.token_hex, _WORD_BYTES))
        reply: JudgeValue | None = None
        while True:
            try:
                question = questions.send(reply)
            except StopIteration as end:
                judged: Judged = end.value
                return judged
            if isinstance(question, Embed):
                reply = await self._vectors(question, budget)
            elif isinstance(question, DecisionCall):
                reply = await self._decided(question, budget)
            else:
                reply = await self._answer(question, budget)

    async def _answer(self, call: ChatCall, budget: JobBudget) -> JudgeValue:
        """Return the answer to a question. A usable one is kept in the cache, also that to a repair."""
        key = cache.key(self._settings, call.identity)
        if call.is_repair:
            self._stats.add("ragweir_judge_repairs_total")
        elif (text := self._stored(key, budget)) is not None:
            return Completion(text.replace(_CHECK, call.check))
        if self._caller is None:
            return _NOT_CACHED
        reply = await self._caller.answer(chat(call, self._settings), budget, is_simpler=call.is_after_unbound)
        if not isinstance(reply, Completion):
            return reply
        answer = call.read(reply)
        is_usable = not isinstance(answer, AnswerFault)
        if not call.is_repair:
            self._caller.schemas.count(is_bound=not (isinstance(answer, AnswerFault) and answer.unbound))
        elif call.is_after_unbound and is_usable:
            self._caller.leave_schemas()
        if is_usable:
            self._keep(key, reply.text.replace(call.check, _CHECK), budget)
        return reply

    async def _decided(self, call: DecisionCall, budget: JobBudget) -> JudgeValue:
        """Return the probabilities that answer some questions."""
        key = cache.key(self._settings, call.identity)
        if (text := self._stored(key, budget)) is not None:
            return DecisionReply(tuple(map(tuple, orjson.loads(text))))
        if self._caller is None:
            return _NOT_CACHED
        reply = await self._caller.answer(decisions(call, self._settings), budget)
        if isinstance(reply, DecisionReply):
            self._keep(key, orjson.dumps(reply.probabilities).decode(), budget)
        return reply

    def _stored(self, key: bytes, budget: JobBudget) -> str | None:
        """Return an answer of the cache; None if there is none, or none may be used."""
        if budget.job.fresh or (stored := self._answers.get(key)) is None:
            return None
        model, text = orjson.loads(stored)
        budget.usage.model = named(model, self._settings.model)
        budget.usage.cached += 1
        self._stats.add("ragweir_judge_calls_total", "cached")
        return str(text)

    def _keep(self, key: bytes, text: str, budget: JobBudget) -> None:
        """Keep an answer in the cache."""
        if not budget.job.fresh:
            self._answers.put(key, orjson.dumps([budget.usage.model, text]).decode())

    async def _vectors(self, embed: Embed, budget: JobBudget) -> JudgeValue:
        model = self._settings.embedding_model
        if model is None or embed.tokens:
            return await self._embed_locally(embed)
        if self._caller is None:
            return _NOT_CACHED
        return await self._caller.answer(embedding(embed, model), budget)
