"""Metrics of the answer alone, from its words and the event's fields (the GraphRAG metrics guide and beyond)."""

from __future__ import annotations

from ragweir.metrics.metric import Metric, Null, Value, shared
from ragweir.metrics.view import View

_CUT_OFF = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
_UNSUPPORTED_LANGUAGE = Null("no word list serves the response's language")
_NO_MARKS = Null("the response has no citation marks")
_NO_LETTERS = Null("the query or the response has no letters")


def _is_blank(text: str | None) -> bool:
    return not text or text.isspace()


@shared
def _is_empty(view: View) -> bool:
    return _is_blank(view.interaction.response)


@shared
def _refuses(view: View) -> bool | Null:
    if _is_empty(view):
        return False
    counts = view.counts
    if counts.non_answer:
        return True
    return counts.declines if counts.response_supported else _UNSUPPORTED_LANGUAGE


def dont_know(view: View) -> Value:
    """True if the answer admits that it does not know, by the guide's own phrases.

    Formula: one of the guide's twelve phrases occurs in the response, or the response is shorter than ten characters
    and has one of the words unknown, n/a, none, null. Many such answers may have their cause in retrieval.
    Undefined: never; an empty response is 0.
    Reference: the GraphRAG metrics guide, "Don't Know Answers Count". Deviation: its code searches for substrings,
    here for words ("nonetheless" is not "none"), with either apostrophe.
    Known limits: English phrases only, and "unknown" counts anywhere ("the unknown soldier"). `refusal` reads whole
    sentences.

    >>> from ragweir.metrics.view import example
    >>> dont_know(example(response="I don’t know which fund that is."))
    1
    >>> dont_know(example(response="Cornish heath"))
    0
    """
    counts = view.counts
    return int(counts.dont_know or counts.non_answer)


def refusal(view: View) -> Value:
    """True if the answer as a whole declines to answer.

    Formula: one of the first two sentences, or at least half of all, says that the answer is not known, not found or
    not given (`ragweir.metrics.text.refusal` has the grammar), or the response is a short non-answer as in `dont_know`.
    Undefined: if the response's language is not supported. An empty response is 0; see `empty_response`.
    Reference: ragweir's own; the GraphRAG metrics guide's phrases find none of the refusals in MTRAG's answers.
    Known limits: English. It reads wording, not meaning; an answer that declines first and then helps is a refusal.

    >>> from ragweir.metrics.view import example
    >>> refusal(example(response="The documents do not mention a waiting period."))
    1
    >>> refusal(example(response="The waiting period is 30 days, and you cannot shorten it."))
    0
    """
    refuses = _refuses(view)
    return refuses if isinstance(refuses, Null) else int(refuses)


def answered_without_context(view: View) -> Value:
    """True if the system answered although retrieval found nothing.

    Formula: the contexts are present but have no text, and the response is neither empty nor a refusal.
    Undefined: without `contexts`; if they have no text and `refusal` is undefined.

    >>> from ragweir.metrics.view import example
    >>> answered_without_context(example(contexts=[], response="The premium is $604."))
    1
    >>> answered_without_context(example(contexts=[], response="I don't have that information."))
    0
    """
    if not all(_is_blank(context.text) for context in view.interaction.contexts or ()) or _is_empty(view):
        return 0
    refuses = _refuses(view)
    return refuses if isinstance(refuses, Null) else int(not refuses)


def refusal_correct(view: View) -> Value:
    """True if the system refused an unanswerable question or answered an answerable one.

    Formula: 1 if (`refusal` is 1) differs from `answerable`, else 0.
    Undefined: without `answerable`; if `refusal` is undefined; for an empty response, which neither answers nor
    refuses.

    >>> from ragweir.metrics.view import example
    >>> refusal_correct(example(answerable=False, response="The text does not mention that."))
    1
    >>> refusal_correct(example(answerable=True, response="The text does not mention that."))
    0
    """
    if _is_empty(view):
        return Null("the response is empty")
    refuses = _refuses(view)
    return refuses if isinstance(refuses, Null) else int(refuses != view.interaction.answerable)


def truncated(view: View) -> Value:
    """True if the model stopped at its limit of tokens.

    Formula: finish_reason is length, or another vendor's name for it: max_tokens, max_output_tokens, model_length.
    Reference: OpenTelemetry's gen_ai.response.finish_reasons.

    >>> from ragweir.metrics.view import example
    >>> truncated(example(finish_reason="length")), truncated(example(finish_reason="stop"))
    (1, 0)
    """
    return int((view.interaction.finish_reason or "").strip().lower() in _CUT_OFF)


def empty_response(view: View) -> Value:
    r"""True if the response is empty.

    Formula: the response has only white space.

    >>> from ragweir.metrics.view import example
    >>> empty_response(example(response=" \n"))
    1
    """
    return int(_is_empty(view))


def response_words(view: View) -> Value:
    """Length of the answer in tokens.

    Formula: number of tokens of the response: words, numbers, dates, times and identifiers, and character pairs in
    scripts written without spaces; at most `limits.max_tokens`.

    >>> from ragweir.metrics.view import example
    >>> response_words(example(response="The premium is $604."))
    4
    """
    return view.counts.response_tokens


def hedge_count(view: View) -> Value:
    """Number of hedging words and phrases in the answer.

    Formula: number of occurrences of a hedging word or phrase (may, might, probably, I think, ...). "May" with a
    capital is the month.
    Undefined: if the response's language is not supported. An empty response has 0.
    Reference: after Hyland, Hedging in Scientific Research Articles (1998); the lexical evaluators leave hedged
    claims out.
    Known limits: English; "could" of the past ("he could swim at four") counts too.

    >>> from ragweir.metrics.view import example
    >>> hedge_count(example(response="It may rain, and it probably will."))
    2
    >>> hedge_count(example(response="It closes in May."))
    0
    """
    counts = view.counts
    return counts.hedges if counts.response_supported else _UNSUPPORTED_LANGUAGE


def repetition(view: View) -> Value:
    """Share of the answer's token triples that repeat an earlier one.

    Formula: 1 - distinct / all runs of three tokens; 0 for a response of fewer than three tokens.
    Reference: 1 - distinct-n of Li et al., A Diversity-Promoting Objective Function (NAACL 2016).

    >>> from ragweir.metrics.view import example
    >>> repetition(example(response="go on and go on and go on"))
    0.5
    """
    counts = view.counts
    distinct = counts.response_triples
    return 1 - distinct / (counts.response_tokens - 2) if distinct else 0.0


def citation_validity(view: View) -> Value:
    """Share of the answer's citation marks that refer to an existing context.

    Formula: marks [n] with 1 <= n <= number of contexts / marks.
    Undefined: without `contexts`; if the response has no mark.
    Known limits: it is not checked that the context supports the cited statement.

    >>> from ragweir.metrics.view import example
    >>> citation_validity(example(response="Yes [1], but [3].", contexts=[{"text": "a"}, {"text": "b"}]))
    0.5
    """
    marks = view.counts.citations
    if not marks:
        return _NO_MARKS
    last = len(view.interaction.contexts or ())
    return sum(1 <= mark <= last for mark in marks) / len(marks)


def citation_count(view: View) -> Value:
    """Number of citation marks in the answer.

    Formula: number of occurrences of marks [n].

    >>> from ragweir.metrics.view import example
    >>> citation_count(example(response="Yes [1], but [3]."))
    2
    """
    return len(view.counts.citations)


def language_mismatch(view: View) -> Value:
    """True if question and answer are written in different scripts.

    Formula: 1 if the dominant scripts of query and response differ, else 0.
    Undefined: if the query or the response has no letters.
    Known limits: languages of one script are not distinguished (a French answer to an English question is 0).

    >>> from ragweir.metrics.view import example
    >>> language_mismatch(example(query="What is the premium?", response="Премия составляет 604 доллара."))
    1
    """
    counts = view.counts
    asked, answered = counts.query_script, counts.response_script
    return int(asked != answered) if asked and answered else _NO_LETTERS


def user_feedback(view: View) -> Value:
    """The user's rating of the answer, as the application recorded it.

    Formula: feedback.score, on the application's own scale.
    Undefined: without `feedback`, or if it has no score.
    Reference: the event.

    >>> from ragweir.metrics.view import example
    >>> user_feedback(example(feedback={"score": 1.0, "label": "thumbs_up"}))
    1.0
    """
    feedback = view.interaction.feedback
    if feedback is None or feedback.score is None:
        return Null("the event's feedback has no score")
    return feedback.score


_DOCUMENT = "the GraphRAG metrics guide"
_BEYOND = "ragweir's own"

METRICS = (
    Metric(dont_know, "answer", "boolean", "neither", (), _DOCUMENT, aliases=("is_dont_know_answer",)),
    Metric(refusal, "answer", "boolean", "neither", (), _BEYOND),
    Metric(answered_without_context, "answer", "boolean", "lower", ("contexts",), _BEYOND),
    Metric(refusal_correct, "answer", "boolean", "higher", ("answerable",), _BEYOND),
    Metric(truncated, "answer", "boolean", "lower", ("finish_reason",), _BEYOND),
    Metric(empty_response, "answer", "boolean", "lower", (), _BEYOND),
    Metric(response_words, "answer", "count", "neither", (), _BEYOND),
    Metric(hedge_count, "answer", "count", "neither", (), _BEYOND),
    Metric(repetition, "answer", "ratio", "lower", (), _BEYOND),
    Metric(citation_validity, "answer", "ratio", "higher", ("contexts",), _BEYOND),
    Metric(citation_count, "answer", "count", "neither", (), _BEYOND),
    Metric(language_mismatch, "answer", "boolean", "lower", (), _BEYOND),
    Metric(user_feedback, "answer", "score", "higher", ("feedback",), _BEYOND),
)
