"""Cost of ragweir and of other packages on the same events: `make bench-peers`.

Scores are measured in one process and one run, by CPU time. Each package is used as its documentation does; objects
that can be reused are reused, and nothing is downloaded. Loops on Kafka are in `peers_kafka`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import orjson
import pandas as pd
from evidently import DataDefinition, Dataset, descriptors
from ragas import metrics as ragas
from ragas.dataset_schema import SingleTurnSample
from rank_bm25 import BM25Okapi
from rich.table import Table
from rouge_score.rouge_scorer import RougeScorer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from bench import peers_kafka
from bench.interactions import interactions
from bench.timing import microseconds
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.view import View
from ragweir.schemas.codec.json import decode
from ragweir.schemas.interaction import Interaction
from tools import tables

EVENTS = 50
_RELEVANT = 2
"""Contexts of each event that are labelled relevant."""

Work = Callable[[Sequence[Interaction]], object]


def _events() -> list[Interaction]:
    events = []
    for value in interactions(EVENTS):
        fields = orjson.loads(value)
        fields["retrieval"]["relevant_ids"] = [context["chunk_id"] for context in fields["contexts"][:_RELEVANT]]
        events.append(decode(orjson.dumps(fields)))
    return events


def _texts(event: Interaction) -> list[str]:
    return [context.text or "" for context in event.contexts or ()]


def _ragweir(*names: str) -> Work:
    every = Catalogue(everything()).free.values()
    catalogue = Catalogue(metric for metric in every if not names or metric.name in names)
    return lambda events: [catalogue.score(View(event)) for event in events]


def _ragas(name: str) -> Work:
    metric: Any = getattr(ragas, name)()

    async def score(events: Iterable[Interaction]) -> None:
        for event in events:
            texts = _texts(event)
            sample = SingleTurnSample(
                user_input=event.query,
                response=event.response,
                reference=(event.expected or ("",))[0],
                retrieved_contexts=texts,
                reference_contexts=texts[:_RELEVANT],
            )
            await metric.single_turn_ascore(sample)

    return lambda events: asyncio.run(score(events))


def _rouge_score(events: Sequence[Interaction]) -> object:
    scorer = RougeScorer(["rougeL"])
    return [scorer.score((event.expected or ("",))[0], event.response) for event in events]


def _tfidf(events: Sequence[Interaction]) -> object:
    return [
        cosine_similarity(TfidfVectorizer(stop_words="english").fit_transform([event.query, event.response]))
        for event in events
    ]


def _bm25(events: Sequence[Interaction]) -> object:
    return [
        BM25Okapi([text.lower().split() for text in _texts(event)]).get_scores((event.query or "").lower().split())
        for event in events
    ]


def _evidently(events: Sequence[Interaction]) -> object:
    frame = pd.DataFrame({"response": [event.response for event in events]})
    names = "TextLength WordCount SentenceCount NonLetterCharacterPercentage".split()
    kinds = [getattr(descriptors, name)("response") for name in names]
    return Dataset.from_pandas(frame, data_definition=DataDefinition(text_columns=["response"]), descriptors=kinds)


@dataclass(frozen=True, slots=True)
class _Row:
    """A measure of another package, and the metric of ragweir that is most like it."""

    package: str
    measure: str
    work: Work
    ours: str


_RAGAS = {
    "NonLLMStringSimilarity": "token_f1",
    "BleuScore": "token_f1",
    "ChrfScore": "token_f1",
    "RougeScore (L)": "rouge_l",
    "ExactMatch": "exact_match",
    "NonLLMContextPrecisionWithReference": "ndcg_at_10",
    "NonLLMContextRecall": "recall_at_10",
}
_ROWS = (
    *(_Row("ragas", measure, _ragas(measure.split()[0]), ours) for measure, ours in _RAGAS.items()),
    _Row("rouge-score", "ROUGE-L", _rouge_score, "rouge_l"),
    _Row("scikit-learn", "TF-IDF cosine, query and response", _tfidf, "lexical_relevance"),
    _Row("rank-bm25", "BM25Okapi over the contexts", _bm25, "bm25_top"),
    _Row("evidently", "4 text descriptors, one batch", _evidently, "response_words"),
)

_FOOTNOTE = """\
Ours includes tokenising; ragas finds relevant contexts by the similarity of their texts, ragweir by their ids.
Not run, since they load a model or a word list: ragas' metrics that ask an LLM or embeddings;
evidently's OOVWordsPercentage, Sentiment and word-matching descriptors (NLTK data), SemanticSimilarity, BERTScore and
HuggingFace descriptors (models)."""


def table() -> Table:
    """Return the whole catalogue, then one row per measure."""
    events = _events()
    whole = microseconds(partial(_ragweir(), events), EVENTS)
    title = f"{EVENTS} events of 4.5 KB, CPU time per event, best round"
    columns = ("package", "measure", "µs", "x whole catalogue", "nearest of ours", "its µs", "x ours")
    result = Table(*columns, title=title, caption=_FOOTNOTE)
    result.add_row("ragweir", f"all {len(Catalogue(everything()).free)} metrics", f"{whole:,.0f}", "1", "", "", "")
    total = 0.0
    for row in _ROWS:
        cost = microseconds(partial(row.work, events), EVENTS)
        own = microseconds(partial(_ragweir(row.ours), events), EVENTS)
        total += cost
        package = f"{row.package} {version(row.package)}"
        figures = f"{cost:,.0f}", f"{cost / whole:.2f}", row.ours, f"{own:,.0f}", f"{cost / own:.1f}"
        result.add_row(package, row.measure, *figures)
    result.add_row("all of these", f"{len(_ROWS)} rows", f"{total:,.0f}", f"{total / whole:.2f}", "", "", "")
    return result


if __name__ == "__main__":
    makes = {"scores": table, "loops": peers_kafka.table}
    tables.main(__doc__ or "", makes, makes)
