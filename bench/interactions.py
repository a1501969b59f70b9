"""Synthetic interactions for benchmarks: about 4.5 KB with five contexts, generated from a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

import orjson

_SUBJECTS = (
    *("The premium", "Territory 118", "Our policy", "The claims desk", "Rule C-1", "The surveyor", "Acme Mutual"),
    "The deductible",
)
_VERBS = ("covers", "raises", "excludes", "requires", "replaces", "reports", "limits", "adjusts")
_OBJECTS = (
    *("water damage in the basement", "a rate of 0.305%", "claims over $1,200", "the roof tiles since 2019"),
    "three of seven regions",
)
_TAILS = (
    *("until December 9, 2025", "according to the manual", "for houses built before 1984", "unless the owner objects"),
    "at 14:30 every day",
)


def _sentence(rng: random.Random) -> str:
    return f"{rng.choice(_SUBJECTS)} {rng.choice(_VERBS)} {rng.choice(_OBJECTS)} {rng.choice(_TAILS)}."


def _text(rng: random.Random, characters: int) -> str:
    text = _sentence(rng)
    while len(text) < characters:
        text += f" {_sentence(rng)}"
    return text


def interactions(count: int, seed: int = 7) -> Iterator[bytes]:
    """Yield encoded interactions with distinct ids."""
    rng = random.Random(seed)
    for number in range(count):
        start = 1_764_000_000_000 + number * 50
        contexts = [
            {
                "chunk_id": f"c{number}-{rank}",
                "document_id": f"d{rng.randrange(500)}",
                "text": _text(rng, 480),
                "score": round(rng.random(), 3),
                "rank": rank,
                "page": rng.randrange(1, 40),
                "retrieval_method": rng.choice(("bm25", "knn", "hybrid")),
            }
            for rank in range(1, 6)
        ]
        quoted = (str(rng.choice(contexts)["text"]).split(". ")[0] for _ in range(4))
        response = " ".join(f"{sentence}." for sentence in quoted) + " " + _text(rng, 200)
        yield orjson.dumps(
            {
                "event_id": f"bench-{number}",
                "started_at": start,
                "ended_at": start + rng.randrange(300, 6000),
                "application": f"app-{rng.randrange(4)}",
                "tenant": f"tenant-{rng.randrange(15)}",
                "pipeline_version": "v1",
                "model": "m",
                "query": _text(rng, 90),
                "response": response,
                "expected": _text(rng, 150),
                "contexts": contexts,
                "retrieval": {"bm25_limit": 10, "knn_limit": 10, "retrieved_before_filter": 12},
                "spans": [{"kind": "llm", "name": "m", "started_at": start + 100, "ended_at": start + 250}],
                "usage": {"input_tokens": 812, "output_tokens": 96, "cost_usd": 0.0004},
            }
        )
