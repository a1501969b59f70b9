"""The content of the pages from Kafka: the store that a projection keeps, and the records at their positions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from ragweir.schemas.label import WITHDRAWN
from ragweir.streams.analysis.blame.live_causes import live_causes
from ragweir.streams.analysis.checks.lag import evaluation_lag
from ragweir.streams.analysis.dead_letters.letters import read_letter
from ragweir.streams.analysis.evaluation_lookup import TopicLookup
from ragweir.streams.analysis.evidence.answer_evidence import EvidenceRules
from ragweir.streams.analysis.evidence.shown_texts import ShownTexts
from ragweir.streams.analysis.labels.criteria import criteria
from ragweir.streams.analysis.labels.report import report
from ragweir.streams.console.agreement_cache import AgreementCache
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.page_state import LagWatch
from ragweir.streams.console.request_counts import CountedFetcher, RequestCounts
from ragweir.streams.console.seen_answers import SeenAnswers
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.console.store.topic_projection import FILE
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.aggregate.objectives import Objective
from ragweir.streams.services.shared.from_settings import aggregator, known_catalogue
from ragweir.streams.settings import Settings


@contextmanager
def content_of_topics(settings: Settings, counts: RequestCounts | None = None) -> Iterator[ConsoleContent]:
    """Show what `ConsoleProjection` keeps in `console.folder`, for the length of a `with` block.

    Args:
        settings: all settings.
        counts: counts the records that are fetched; None for counts that nobody reads.

    Raises:
        ConfigurationError: if the settings are wrong.
        PermanentError: if `console.folder` cannot be written.
    """
    objectives = [Objective.of(slo, aggregator(settings)) for slo in settings.slo]
    rules, texts = EvidenceRules.of(settings), ShownTexts(settings)
    catalogue = known_catalogue(settings).metrics
    asked = [(each, criteria(each, catalogue)) for each in settings.labels.questions]
    file = settings.console.folder / FILE
    letters = settings.output_topic("dead-letter")
    seen = SeenAnswers(settings.console.folder / "seen.sqlite", settings.labels.key)
    with (
        closing(seen),
        closing(CountedFetcher(settings, counts or RequestCounts())) as fetcher,
        closing(AnswerStore(file, objectives)) as store,
    ):
        yield ConsoleContent(
            settings,
            store,
            TopicLookup(settings, fetcher),
            rules,
            texts,
            labels=lambda event_id: [each for each in store.labels_of(event_id) if each.value != WITHDRAWN],
            agreement=AgreementCache(store.labels_version, lambda: report(store.people_labels(), asked)),
            causes=lambda question: live_causes(settings, question, machine.now()),
            agreement_command="ragweir labels report",
            seen=seen,
            lag=LagWatch(partial(evaluation_lag, settings)).say,
            letter=lambda at: read_letter(found) if (found := fetcher.fetch(letters, *at)) else None,
        )
