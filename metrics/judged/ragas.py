"""The suite `ragas`: faithfulness, context precision and recall, answer relevance, and their score.

The definitions are those of the GraphRAG metrics guide.

Each part has its own questions and may be null; the score is over the others. All are percentages.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ragweir.metrics.judged.asking import (
    ANY_OF_SEVERAL,
    MOST_STATEMENTS,
    NO_CONTEXTS,
    NO_EXPECTED,
    Share,
    ShortText,
    ask,
    decided_verdicts,
    embed,
    numbered_contexts,
    numbered_lines,
    references,
    verdicts,
)
from ragweir.metrics.judged.deciding import by_fields, score
from ragweir.metrics.judged.suite import Answer, Ask, Case, Conversation, Embed, Suite, SuiteResult
from ragweir.metrics.metric import Flagged, Metric, Null, Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

DIRECT = "direct_assessment"
"""Flag of an answer relevance that the judge gave directly, without questions or embeddings."""

QUESTIONS = 3
MOST_VERDICTS = 64
"""Maximum number of verdicts of one step: of claims and statements there are fewer, and of contexts no more by
default."""
WEIGHTS = (0.30, 0.20, 0.20, 0.30)
"""Weights of faithfulness, context precision, context recall and answer relevance in the score."""

CLAIMS = f"""\
Take the response apart into the statements of fact that it makes. Each must say one thing, be understood without the \
query and the rest of the response (put names in the place of pronouns), and be such that it can be checked. Keep its \
meaning as it is. Leave out opinions, questions and suppositions. List none where there are none, and the \
{MOST_STATEMENTS} that matter most where there are more."""

_SUPPORT = """\
Decide for each numbered claim whether the contexts support it. It is supported if they say it or it follows directly \
from them; it is not if they contradict it or do not mention it. What you know besides does not count."""

SUPPORT = f"{_SUPPORT} Give one verdict per claim, in their order: true if it is supported."

_USEFUL = f"""\
Decide for each context whether it is relevant: whether it has information that helps to answer the query directly, \
gives facts or definitions that belong to it, or could be quoted in support of an answer. {ANY_OF_SEVERAL}"""

USEFUL = f"{_USEFUL} Give one verdict per context, in their order: true if it is relevant."

STATEMENTS = f"""\
Take each expected answer to the query apart into the pieces of information that it gives: facts, relations, \
quantities, names, dates. Each must say one thing and be complete enough to be checked by itself; add nothing. With \
each, give the number of the expected answer that it is from, 1 where there is one only. List none where there are \
none, and the {MOST_STATEMENTS} that matter most where there are more."""

_ATTRIBUTION = """\
Decide for each numbered statement whether it stands in the contexts or follows from them. What you know besides does \
not count."""

ATTRIBUTION = f"{_ATTRIBUTION} Give one verdict per statement, in their order: true if it does."

ASKED_FOR = f"""\
Write {QUESTIONS} different questions that the response would be a good answer to, each natural, well formed, and \
answered by the response. They should cover different sides of it. List none if there is nothing in it to ask for."""

_DIRECTLY = "Judge how well the response addresses the query."
_LEVELS = """\
1.0: directly and completely
0.75: mostly, with small gaps
0.5: in part
0.25: it only touches on it
0.0: not at all"""

DIRECTLY = f"""\
{_DIRECTLY} First say why in one or two short sentences, then give a score between 0 and 1.
{_LEVELS}"""

Part = Generator[Ask | Embed, object, tuple[Value, str]]
"""The conversation of one part, which returns its value and its explanation."""


class Claims(Answer):
    """The statements of fact of the response."""

    claims: Annotated[list[ShortText], Field(max_length=MOST_STATEMENTS)]


class Statement(Answer):
    """One piece of information of an expected answer."""

    expected: int
    """The number of the expected answer that it is from."""
    statement: ShortText


class Statements(Answer):
    """The pieces of information of the expected answers."""

    statements: Annotated[list[Statement], Field(max_length=MOST_STATEMENTS)]


class Questions(Answer):
    """What the response would answer."""

    questions: Annotated[list[ShortText], Field(max_length=QUESTIONS)]


class Direct(Answer):
    """How well the response addresses the query."""

    reason: ShortText
    score: Share


_DIRECT = by_fields(Direct, score("score", f"{_DIRECTLY}\n{_LEVELS}", "ragas_answer_relevance", 100.0))


def ragas_faithfulness(supported: Sequence[bool]) -> float:
    """Share of the response's claims that the contexts support, by a judge.

    Formula: 100 x supported claims / claims, at most the 40 that matter most; 100 without claims, else 0 if the list of
    contexts is empty.
    Undefined: without `contexts`; without a usable answer of the judge.
    Reference: the GraphRAG metrics guide, "RAGAS Faithfulness"; Es et al., RAGAS, 2023.

    >>> ragas_faithfulness([True, True, False, True]), ragas_faithfulness([])
    (75.0, 100.0)
    """
    return _percentage(supported) if supported else 100.0


def ragas_context_precision(relevant: Sequence[bool]) -> float:
    """Share of the retrieved contexts that are relevant to the query, by a judge.

    Formula: 100 x relevant contexts / contexts; 0 if their list is empty.
    Undefined: without `contexts`; without a usable answer of the judge, with one verdict per context.
    Reference: the GraphRAG metrics guide, "RAGAS Context Precision".

    >>> ragas_context_precision([True, False, True, False]), ragas_context_precision([])
    (50.0, 0.0)
    """
    return _percentage(relevant) if relevant else 0.0


def ragas_context_precision_at_k(relevant: Sequence[bool]) -> float:
    """Average precision of the order of the contexts, by a judge.

    Formula: 100 x the mean, over the relevant contexts, of the share of contexts up to their rank that are relevant; 0
    if none is relevant.
    Undefined: as `ragas_context_precision`.
    Reference: the GraphRAG metrics guide, "Precision@K" under "RAGAS Context Precision".

    >>> ragas_context_precision_at_k([True, True, False]), ragas_context_precision_at_k([False, True])
    (100.0, 50.0)
    """
    ranks = [rank for rank, holds in enumerate(relevant, 1) if holds]
    return 100 * sum(found / rank for found, rank in enumerate(ranks, 1)) / len(ranks) if ranks else 0.0


def ragas_context_recall(attributed: Mapping[int, Sequence[bool]]) -> float:
    """Share of the expected answer's statements that the contexts have, by a judge.

    Formula: 100 x statements found / statements, at most 40; 100 without statements, else 0 if the list of contexts is
    empty. Of several expected answers the highest value counts, as any of them is right.
    Undefined: without `contexts` or `expected`, or if all expected answers are blank; without a usable answer of the
    judge.
    Reference: the GraphRAG metrics guide, "RAGAS Context Recall".

    >>> ragas_context_recall({1: [True, False], 2: [True]}), ragas_context_recall({})
    (100.0, 100.0)
    """
    return max((_percentage(found) for found in attributed.values()), default=100.0)


def ragas_answer_relevance(query: Vector, questions: Sequence[Vector]) -> float:
    """Similarity of the query to the questions that the response would answer, by a judge and embeddings.

    Formula: 100 x the mean cosine of the query's embedding with those of three questions that a judge generates from
    the response, not below 0. Without questions or embeddings it is 100 x the judge's score of the response's relevance
    to the query, flagged `direct_assessment`.
    Undefined: without a usable answer of the judge.
    Reference: the GraphRAG metrics guide, "RAGAS Answer Relevance"; Es et al., RAGAS, 2023.
    Known limits: values of different embedding models are not comparable.

    >>> import numpy as np
    >>> ragas_answer_relevance(np.float32([1, 0]), [np.float32([2, 0]), np.float32([0, 1])])
    50.0
    """
    import numpy as np  # noqa: PLC0415 - importing it takes a fifth of a second

    return max(0.0, min(100.0, 100 * float(np.mean([_cosine(query, question) for question in questions]))))


def ragas_score(parts: Sequence[Value], weights: Sequence[float] = WEIGHTS) -> float | Null:
    """Weighted mean of the four parts, for the quality of the whole pipeline.

    Formula: the mean of `ragas_faithfulness`, `ragas_context_precision`, `ragas_context_recall` and
    `ragas_answer_relevance` with the weights 0.30, 0.20, 0.20, 0.30 (`judge.ragas_weights`), over those that are not
    null.
    Undefined: if all parts with a weight above 0 are.
    Reference: the GraphRAG metrics guide, "RAGAS Composite Score".
    Known limits: scores over different parts are not comparable; `reasons` has the parts that are null.

    >>> from ragweir.metrics.metric import Null
    >>> missing = Null("missing")
    >>> [round(ragas_score(parts), 2) for parts in (
    ...     (100.0, missing, 100.0, 83.27), (0.0, 0.0, 0.0, 83.27), (missing, missing, missing, 82.29))]
    [93.73, 24.98, 82.29]
    """
    bare = [part.value if isinstance(part, Flagged) else part for part in parts]
    defined = [(part, weight) for part, weight in zip(bare, weights, strict=True) if isinstance(part, float) and weight]
    if not defined:
        needed = [part for part, weight in zip(bare, weights, strict=True) if isinstance(part, Null) and weight]
        is_unanswered = any(part.kind == "unanswered" for part in needed)
        return Null("no part of the score has a value", "unanswered" if is_unanswered else "undefined")
    total = sum(weight for _, weight in defined)
    return min(100.0, sum(part * weight for part, weight in defined) / total)


def _percentage(holding: Sequence[bool]) -> float:
    return 100 * sum(holding) / len(holding)


def _cosine(one: Vector, other: Vector) -> float:
    import numpy as np  # noqa: PLC0415 - as above

    lengths = float(np.linalg.norm(one)) * float(np.linalg.norm(other))
    return float(np.dot(one, other)) / lengths if lengths else 0.0


def _faithfulness(case: Case) -> Part:
    if case.contexts is None:
        return NO_CONTEXTS, ""
    claims: list[str] = []
    if case.response.strip():
        answer = yield from ask(CLAIMS, (("query", case.query), ("response", case.response)), Claims)
        if isinstance(answer, Null):
            return answer, ""
        claims = [claim for claim in answer.claims if claim.strip()]
    if not claims:
        return ragas_faithfulness([]), "it makes no claims"
    if not case.contexts:
        return ragas_faithfulness([False] * len(claims)), "there are no contexts to support its claims"
    data = (("claims", numbered_lines(claims)), *numbered_contexts(case.contexts))
    numbers = range(1, len(claims) + 1)
    deciding = decided_verdicts(_SUPPORT, "ragas_faithfulness", [f"Claim {number} is supported." for number in numbers])
    found = yield from ask(SUPPORT, data, verdicts(len(claims)), deciding)
    if isinstance(found, Null):
        return found, ""
    return ragas_faithfulness(found.values), found.explanation("supported", claims)


def _relevant(case: Case) -> Generator[Ask | Embed, object, tuple[Sequence[bool] | Null, str]]:
    """Return the verdicts on the relevance of the contexts, and their explanation."""
    if not case.contexts:
        return (NO_CONTEXTS if case.contexts is None else []), ""
    contexts = numbered_contexts(case.contexts)
    statements = [f"The text {name} is relevant." for name, _ in contexts]
    deciding = decided_verdicts(_USEFUL, "ragas_context_precision", statements)
    data = (("query", case.query), *references(case), *contexts)
    found = yield from ask(USEFUL, data, verdicts(len(contexts)), deciding)
    if isinstance(found, Null):
        return found, ""
    return found.values, found.explanation("relevant", [name for name, _ in contexts])


def _recall(case: Case) -> Part:
    expected = references(case)
    if case.contexts is None or not expected:
        return (NO_EXPECTED if case.contexts is not None else NO_CONTEXTS), ""
    answer = yield from ask(STATEMENTS, (("query", case.query), *expected), Statements)
    if isinstance(answer, Null):
        return answer, ""
    stated = [each for each in answer.statements if each.statement.strip()]
    if not stated:
        return ragas_context_recall({}), "the expected answer makes no statements"
    if not case.contexts:
        return ragas_context_recall({each.expected: [False] for each in stated}), "there are no contexts to hold any"
    texts = [each.statement for each in stated]
    data = (("statements", numbered_lines(texts)), *numbered_contexts(case.contexts))
    numbers = range(1, len(stated) + 1)
    # Of several expected answers the highest share counts, of which no distribution is kept.
    metric = "ragas_context_recall" if len({each.expected for each in stated}) == 1 else ""
    statements = [f"Statement {number} stands in the contexts." for number in numbers]
    deciding = decided_verdicts(_ATTRIBUTION, metric, statements)
    found = yield from ask(ATTRIBUTION, data, verdicts(len(stated)), deciding)
    if isinstance(found, Null):
        return found, ""
    attributed: dict[int, list[bool]] = {}
    for each, holds in zip(stated, found.values, strict=True):
        attributed.setdefault(each.expected, []).append(holds)
    return ragas_context_recall(attributed), found.explanation("found", texts)


def _relevance(case: Case) -> Part:
    answer = yield from ask(ASKED_FOR, (("response", case.response),), Questions)
    if isinstance(answer, Null):
        return answer, ""
    questions = [question for question in answer.questions if question.strip()]
    if questions:
        vectors = yield from embed((case.query, *questions))
        if not isinstance(vectors, Null):
            return ragas_answer_relevance(vectors[0], vectors[1:]), f"it answers: {' '.join(questions)}"
    direct = yield from ask(DIRECTLY, (("query", case.query), ("response", case.response)), Direct, _DIRECT)
    if isinstance(direct, Null):
        return direct, ""
    return Flagged(100 * direct.score, DIRECT), direct.reason


def converse(case: Case, weights: Sequence[float] = WEIGHTS) -> Conversation:
    """Ask at most seven questions."""
    faithfulness = yield from _faithfulness(case)
    relevant, explanation = yield from _relevant(case)
    precision, at_k = (
        relevant if isinstance(relevant, Null) else compute(relevant)
        for compute in (ragas_context_precision, ragas_context_precision_at_k)
    )
    recall = yield from _recall(case)
    relevance = yield from _relevance(case)
    parts: dict[str, tuple[Value, str]] = {
        "ragas_faithfulness": faithfulness,
        "ragas_context_precision": (precision, explanation),
        "ragas_context_recall": recall,
        "ragas_answer_relevance": relevance,
    }
    values = {name: value for name, (value, _) in parts.items()}
    score = ragas_score(list(values.values()), weights)
    explanations = {name: text for name, (_, text) in parts.items() if text}
    return SuiteResult(values | {"ragas_context_precision_at_k": at_k, "ragas_score": score}, explanations)


_SOURCE = "the GraphRAG metrics guide"

METRICS = (
    Metric(ragas_faithfulness, "ragas", "percent", "higher", ("contexts",), _SOURCE, "llm"),
    Metric(ragas_context_precision, "ragas", "percent", "higher", ("contexts",), _SOURCE, "llm"),
    Metric(ragas_context_precision_at_k, "ragas", "percent", "higher", ("contexts",), _SOURCE, "llm", order_free=False),
    Metric(ragas_context_recall, "ragas", "percent", "higher", ("contexts", "expected"), _SOURCE, "llm"),
    Metric(ragas_answer_relevance, "ragas", "percent", "higher", (), _SOURCE, "llm"),
    Metric(ragas_score, "ragas", "percent", "higher", (), _SOURCE, "llm"),
)


def ragas(weights: Sequence[float] = WEIGHTS) -> Suite:
    """Return the suite with the weights of faithfulness, context precision, context recall and answer relevance."""
    return Suite("ragas", "2", METRICS, partial(converse, weights=weights), asks=7, parts=MOST_VERDICTS)
