"""The suite `semantic`: similarity of answer and expected answer by the embeddings of a language model.

Its metrics are those of the GraphRAG metrics guide.

It asks no judge. The embeddings are a small local model's or, for the first metric only, the judge's endpoint's.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

from ragweir.metrics.judged.asking import embed
from ragweir.metrics.judged.suite import Ask, Case, Conversation, Embed, Suite, SuiteResult, Vectors
from ragweir.metrics.metric import Flagged, Metric, Null, Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.floating[Any]]

MOST_CHARACTERS = 10_000
"""Maximum length of each text: about 1,600 English words."""
MOST_TOKENS = 2_048
"""Maximum number of tokens of each text in `bert_score_f1`, whose time grows with the product of the lengths."""
MOST_EXPECTED = 16
"""Maximum number of expected answers that are compared with the response."""


_NOT_FINITE = Null("an embedding holds a number that is not finite", "unanswered")


def semantic_similarity_percentage(response: Rows, expected: Sequence[Rows]) -> Value:
    """Similarity in meaning of the answer and the expected one, by the cosine of their embeddings.

    Formula: max(0, cosine of the two texts' vectors) x 100, to two decimals. Of several expected answers the closest
    counts. An empty or blank text gives 0, and so does a vector of zeros.
    Undefined: without `expected`, or if its list is empty; without a model for embeddings.
    Reference: the GraphRAG metrics guide, section 7. The model is `judge.embedding_model` at the endpoint, or else
        the local all-MiniLM-L6-v2. Values of different models are not comparable; the guide's bands (90 and above the
        same, below 80 different) are not those of MiniLM.
    Known limits: negation hardly changes it ("is covered", "is not covered"). White space at a text's ends is ignored.
        Of each text the first 10,000 characters are read, and of the expected answers the first 16; flagged `cut`.

    >>> import numpy as np
    >>> vector, turned = np.array([3.0, 4.0]), np.array([4.0, 3.0])
    >>> semantic_similarity_percentage(vector, [vector])
    100.0
    >>> semantic_similarity_percentage(vector, [-vector, turned])
    96.0
    >>> semantic_similarity_percentage(vector, [-vector])
    0.0
    """
    if not _finite(response, *expected):
        return _NOT_FINITE
    own = _unit(response)
    return _percent(max((float(own @ _unit(other)) for other in expected), default=0.0))


def bert_score_f1(response: Rows, expected: Sequence[Rows]) -> Value:
    """F1 of the best matches between the tokens of answer and expected answer, by their contextual embeddings.

    Formula: each token of one text is matched with the most similar one of the other, by the cosine of their
    embeddings. P is the mean over the response's tokens, R over the expected answer's, neither below 0;
    F1 = 2PR / (P + R), in percent, to two decimals. Of several expected answers the best F1 counts. Special tokens are
    left out, all others have the same weight (no idf), and there is no baseline rescaling. An empty or blank text gives
    0.
    Undefined: without `expected`, or if its list is empty; without the local model (extra `semantic`), since endpoints
        give no vectors of tokens.
    Reference: the GraphRAG metrics guide, section 8; Zhang et al., BERTScore, ICLR 2020. The embeddings are the last
        layer of all-MiniLM-L6-v2, the guide's those of deberta-xlarge-mnli: the values are not comparable.
    Known limits: in languages other than English tokens are parts of words or single letters, with weaker matches.
        White space at a text's ends is ignored. Of each text the first 10,000 characters are read and of these the
        first 2,048 tokens, and of the expected answers the first 16; flagged `cut`.

    >>> import numpy as np
    >>> tokens = np.array([[1.0, 0.0], [0.0, 2.0]])
    >>> bert_score_f1(tokens, [tokens])
    100.0
    >>> bert_score_f1(tokens, [np.array([[3.0, 4.0]])])  # P = (0.6 + 0.8) / 2, R = 0.8
    74.67
    """
    if not _finite(response, *expected):
        return _NOT_FINITE
    own = _unit(response)
    return _percent(max((_f1(own, _unit(other)) for other in expected), default=0.0))


def _finite(*vectors: Rows) -> bool:
    import numpy as np  # noqa: PLC0415 - importing it takes a fifth of a second

    return all(bool(np.isfinite(vector).all()) for vector in vectors)


def _unit(rows: Rows) -> Rows:
    """Return each row at length 1, rows of zeros unchanged; in double precision for large numbers of an endpoint."""
    import numpy as np  # noqa: PLC0415 - as above

    lengths = np.linalg.norm(rows.astype(np.float64), axis=-1, keepdims=True)
    return (rows / np.where(lengths == 0, 1.0, lengths)).astype(np.float32)


def _percent(ratio: float) -> float:
    return round(100 * min(max(ratio, 0.0), 1.0), 2)


def _f1(one: Rows, other: Rows) -> float:
    """Return the F1 of greedy matching between rows of length 1."""
    if not len(one) or not len(other):
        return 0.0
    cosines = one @ other.T
    precision = max(0.0, float(cosines.max(axis=1).mean()))
    recall = max(0.0, float(cosines.max(axis=0).mean()))
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _converse(case: Case) -> Conversation:
    if not case.expected:
        return SEMANTIC.null(Null("the event has no expected answer"))
    distinct = tuple(dict.fromkeys(text.strip() for text in case.expected))
    whole = (case.response.strip(), *distinct[:MOST_EXPECTED])
    cut = len(distinct) > MOST_EXPECTED or any(len(text) > MOST_CHARACTERS for text in whole)
    response, *expected = (text[:MOST_CHARACTERS] for text in whole)
    texts = (response, *filter(None, expected))
    if not response or len(texts) == 1:
        return SuiteResult({metric.name: _flagged(0.0, cut=cut) for metric in SEMANTIC.metrics})
    similarity = yield from _similarity(texts)
    score, also_cut = yield from _bert_score(texts)
    return SuiteResult(
        {
            "semantic_similarity_percentage": _flagged(similarity, cut=cut),
            "bert_score_f1": _flagged(score, cut=cut or also_cut),
        }
    )


def _similarity(texts: Sequence[str]) -> Generator[Ask | Embed, object, Value]:
    vectors = yield from embed(texts)
    return vectors if isinstance(vectors, Null) else semantic_similarity_percentage(vectors[0], vectors[1:])


def _bert_score(texts: Sequence[str]) -> Generator[Ask | Embed, object, tuple[Value, bool]]:
    """Return the score, and True if tokens were left out. Texts are embedded one by one, to save memory."""
    rows: Vectors = []
    cut = False
    for text in texts:
        answer = yield from embed((text,), tokens=True)
        if isinstance(answer, Null):
            return answer, False
        cut = cut or len(answer[0]) > MOST_TOKENS
        rows.append(answer[0][:MOST_TOKENS].copy())
    return bert_score_f1(rows[0], rows[1:]), cut


def _flagged(value: Value, *, cut: bool) -> Value:
    return Flagged(value, "cut") if cut and isinstance(value, float) else value


_NEEDS = ("expected",)

_SOURCE = "the GraphRAG metrics guide"
METRICS = (
    Metric(semantic_similarity_percentage, "semantic", "percent", "higher", _NEEDS, _SOURCE, "local"),
    Metric(bert_score_f1, "semantic", "percent", "higher", _NEEDS, _SOURCE, "local"),
)

SEMANTIC = Suite("semantic", "1", METRICS, _converse, asks=0, needs=_NEEDS)
