"""A question answerer that needs nothing but Python: retrieval by shared words, and a simulated model.

The model is simulated: it repeats the sentence of the retrieved facts that shares most words with the question. The
facts are public knowledge.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

MODEL = "simulated-model"
MODEL_SECONDS = 0.05
"""Time that the simulated model takes for an answer."""
QUESTIONS = (
    "Who wrote the first published program?",
    "When was the old bridge of Mostar rebuilt?",
    "How high is Mont Blanc?",
    "Which planet has the most moons?",
    "How many people live on Mars?",
)
_WORD = re.compile(r"\w+")


class KnownFact(NamedTuple):
    """One paragraph about a subject."""

    subject: str
    text: str


FACTS = (
    KnownFact("Ada Lovelace", "Ada Lovelace wrote the first published program in 1843. It computes Bernoulli numbers."),
    KnownFact("Mostar", "The old bridge of Mostar was finished in 1566. It was rebuilt in 2004."),
    KnownFact("Mont Blanc", "Mont Blanc is about 4,806 metres high. It was first climbed in 1786."),
    KnownFact("Saturn", "Saturn is the planet with the most known moons. Its rings are mostly ice."),
    KnownFact("Kafka", "Apache Kafka stores records in topics. Each topic has partitions."),
)


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.lower()))


def search(question: str, limit: int = 2) -> list[KnownFact]:
    """Return the facts that share most words with a question, the best first.

    >>> [fact.subject for fact in search("Who climbed Mont Blanc?", limit=1)]
    ['Mont Blanc']
    """
    return sorted(FACTS, key=lambda fact: -len(_words(question) & _words(fact.text)))[:limit]


def simulated_model(question: str, facts: list[KnownFact]) -> str:
    """Return the sentence of the facts that shares most words with a question.

    >>> simulated_model("How high is Mont Blanc?", search("How high is Mont Blanc?"))
    'Mont Blanc is about 4,806 metres high.'
    """
    time.sleep(MODEL_SECONDS)
    sentences = [f"{sentence.rstrip('.')}." for fact in facts for sentence in fact.text.split(". ")]
    return max(sentences, key=lambda sentence: len(_words(question) & _words(sentence)))
