"""What kind of answer it is, told from its own words and the event's fields (document 003 and beyond)."""

from __future__ import annotations

from ragweir.metrics.metric import Metric, Null, Value, shared
from ragweir.metrics.scores.grounding import response_triples
from ragweir.metrics.text.phrases import Phrases, phrase
from ragweir.metrics.text.refusal import declines
from ragweir.metrics.text.text import Text
from ragweir.metrics.view import View

_DONT_KNOW = Phrases(
    phrase(each)
    for each in (
        "I don't know",
        "I do not know",
        "unknown",
        "not sure",
        "cannot determine",
        "no information",
        "insufficient data",
        "unable to answer",
        "cannot answer",
        "don't have enough information",
        "not available",
        "no data",
    )
)
_NON_ANSWERS = Phrases(map(phrase, ("unknown", "n/a", "none", "null")))
_SHORT = 10
"""A non-answer says nothing else: the text is shorter than this many characters."""

_HEDGE_WORDS = """
    may might could perhaps maybe possibly probably presumably supposedly apparently arguably seemingly potentially
    conceivably reportedly allegedly plausibly likely unlikely seem seems seemed appears_to appear_to appeared_to
    suggest suggests suggested I_think I_believe I_guess I_assume I_suppose I_suspect in_my_opinion as_far_as_I_know
    to_my_knowledge not_sure not_certain unsure uncertain it_is_possible it's_possible to_some_extent tend_to tends_to
"""
_HEDGES = Phrases(phrase(each.replace("_", " ")) for each in _HEDGE_WORDS.split())

_CUT_OFF = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
_UNSUPPORTED_LANGUAGE = Null("no word list serves the response's language")


@shared
def _says_nothing(view: View) -> bool:
    return not view.interaction.response.strip()


@shared
def _is_non_answer(view: View) -> bool:
    response = view.response
    return len(response.text.strip()) < _SHORT and _NON_ANSWERS.occur_in(response)


@shared
def _refuses(view: View) -> bool | Null:
    if _says_nothing(view):
        return False
    if _is_non_answer(view):
        return True
    return declines(view.response) if view.response.is_supported else _UNSUPPORTED_LANGUAGE


def dont_know(view: View) -> Value:
    """Whether the answer admits that it does not know, by the document's own phrases.

    Formula: one of the document's twelve phrases stands in the response, or the response is shorter than ten characters
    and has one of the words unknown, n/a, none, null.
    Range: 1 or 0; neither is better: honest doubt is good, much of it points at retrieval.
    Undefined: never; an empty response is 0.
    Reference: document 003, "Don't Know Answers Count". Deviation: its code looks for substrings, here a phrase stands
    between word bounds ("nonetheless" is no "none"), and both apostrophes count.
    Known limits: English phrases only, and "unknown" counts wherever it stands ("the unknown soldier"). `refusal` is
    the measure that reads whole sentences.

    >>> from ragweir.metrics.view import example
    >>> dont_know(example(response="I don’t know which fund that is."))
    1
    >>> dont_know(example(response="Cornish heath"))
    0
    """
    return int(_DONT_KNOW.occur_in(view.response) or _is_non_answer(view))


def refusal(view: View) -> Value:
    """Whether the answer as a whole declines to answer.

    Formula: one of the first two sentences, or at least half of all, says that the answer is not known, not found or
    not given, or the response is a short non-answer as in `dont_know`. The ways to say so are the grammar of
    `ragweir.metrics.text.refusal`.
    Range: 1 or 0; neither is better: see `refusal_correct`.
    Undefined: when no word list serves the response's language. An empty response declines nothing and is 0; see
    `empty_response`.
    Reference: beyond the documents; document 003's phrases catch none of the refusals in MTRAG's answers.
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
    """Whether the system answered although retrieval gave it nothing.

    Formula: the contexts are present but hold no text, and the response is neither empty nor a refusal.
    Range: 1 or 0; lower is better.
    Undefined: without `contexts`; when there is no text in them and `refusal` is undefined.
    Reference: beyond the documents.

    >>> from ragweir.metrics.view import example
    >>> answered_without_context(example(contexts=[], response="The premium is $604."))
    1
    >>> answered_without_context(example(contexts=[], response="I don't have that information."))
    0
    """
    if any(context.text.strip() for context in view.interaction.contexts or ()) or _says_nothing(view):
        return 0
    refuses = _refuses(view)
    return refuses if isinstance(refuses, Null) else int(not refuses)


def refusal_correct(view: View) -> Value:
    """Whether the system refused exactly when the question has no answer.

    Formula: 1 if (`refusal` is 1) differs from `answerable`, else 0.
    Range: 1 or 0; higher is better.
    Undefined: without `answerable`; when `refusal` is undefined; for an empty response, which neither answers nor
    refuses.
    Reference: beyond the documents.

    >>> from ragweir.metrics.view import example
    >>> refusal_correct(example(answerable=False, response="The text does not mention that."))
    1
    >>> refusal_correct(example(answerable=True, response="The text does not mention that."))
    0
    """
    if _says_nothing(view):
        return Null("the response is empty")
    refuses = _refuses(view)
    return refuses if isinstance(refuses, Null) else int(refuses != view.interaction.answerable)


def truncated(view: View) -> Value:
    """Whether the model stopped because it ran out of room.

    Formula: finish_reason is length, or another vendor's word for it: max_tokens, max_output_tokens, model_length.
    Range: 1 or 0; lower is better.
    Undefined: without `finish_reason`.
    Reference: OpenTelemetry's gen_ai.response.finish_reasons.

    >>> from ragweir.metrics.view import example
    >>> truncated(example(finish_reason="length")), truncated(example(finish_reason="stop"))
    (1, 0)
    """
    return int((view.interaction.finish_reason or "").strip().lower() in _CUT_OFF)


def empty_response(view: View) -> Value:
    r"""Whether there is no answer at all.

    Formula: the response holds nothing but white space.
    Range: 1 or 0; lower is better.
    Undefined: never.
    Reference: beyond the documents.

    >>> from ragweir.metrics.view import example
    >>> empty_response(example(response=" \n"))
    1
    """
    return int(_says_nothing(view))


def response_words(view: View) -> Value:
    """How long the answer is.

    Formula: number of tokens of the response: words, numbers, dates, times and identifiers, and character pairs in
    scripts written without spaces.
    Range: 0 and up, at most the token limit; neither direction is better.
    Undefined: never.
    Reference: beyond the documents.

    >>> from ragweir.metrics.view import example
    >>> response_words(example(response="The premium is $604."))
    4
    """
    return len(view.response.tokens)


def hedge_count(view: View) -> Value:
    """How often the answer hedges.

    Formula: number of places where a hedging word or phrase stands (may, might, probably, I think, ...). "May" so
    written is the month.
    Range: 0 and up; neither direction is better.
    Undefined: when no word list serves the response's language. An empty response hedges 0 times.
    Reference: after Hyland, Hedging in Scientific Research Articles (1998); document 004 leaves hedged claims out.
    Known limits: English; "could" of the past ("he could swim at four") counts too.

    >>> from ragweir.metrics.view import example
    >>> hedge_count(example(response="It may rain, and it probably will."))
    2
    >>> hedge_count(example(response="It closes in May."))
    0
    """
    response = view.response
    if not response.is_supported:
        return _UNSUPPORTED_LANGUAGE
    return sum(1 for _ in _HEDGES.occurrences(response)) - _months_of_may(response)


def _months_of_may(text: Text) -> int:
    """How many words are the month, as opposed to the verb: written "May"."""
    if "may" not in text.distinct or "May" not in text.text:
        return 0
    return sum(
        word == "may" and text.text[start] == "M" and text.text[end - 1] == "y"
        for word, (start, end) in zip(text.tokens, text.spans, strict=True)
    )


def repetition(view: View) -> Value:
    """How much the answer repeats itself.

    Formula: 1 - distinct / all runs of three tokens.
    Range: 0 to 1; lower is better. 0 for a response of under three tokens.
    Undefined: never.
    Reference: the distinct-n of Li et al., A Diversity-Promoting Objective Function (NAACL 2016), turned round.

    >>> from ragweir.metrics.view import example
    >>> repetition(example(response="go on and go on and go on"))
    0.5
    """
    distinct = response_triples(view)
    return 1 - len(distinct) / (len(view.response.tokens) - 2) if distinct else 0.0


def citation_validity(view: View) -> Value:
    """Share of the answer's citation marks that name a context that exists.

    Formula: marks [n] with 1 <= n <= number of contexts / marks.
    Range: 0 to 1; higher is better.
    Undefined: without `contexts`; when the response has no mark.
    Reference: beyond the documents.
    Known limits: that the context supports what it is cited for is not looked at.

    >>> from ragweir.metrics.view import example
    >>> citation_validity(example(response="Yes [1], but [3].", contexts=[{"text": "a"}, {"text": "b"}]))
    0.5
    """
    marks = view.response.citations
    if not marks:
        return Null("the response has no citation marks")
    last = len(view.interaction.contexts or ())
    return sum(1 <= mark <= last for mark in marks) / len(marks)


def citation_count(view: View) -> Value:
    """How many citation marks the answer has.

    Formula: number of marks [n], each time that one stands.
    Range: 0 and up; neither direction is better.
    Undefined: never.
    Reference: beyond the documents.

    >>> from ragweir.metrics.view import example
    >>> citation_count(example(response="Yes [1], but [3]."))
    2
    """
    return len(view.response.citations)


def language_mismatch(view: View) -> Value:
    """Whether question and answer are written in different scripts.

    Formula: 1 if the dominant scripts of query and response differ, else 0.
    Range: 1 or 0; lower is better.
    Undefined: when the query or the response has no letters.
    Reference: beyond the documents.
    Known limits: languages of one script are not told apart (a French answer to an English question is 0).

    >>> from ragweir.metrics.view import example
    >>> language_mismatch(example(query="What is the premium?", response="Премия составляет 604 доллара."))
    1
    """
    asked, answered = view.query.script, view.response.script
    if not asked or not answered:
        return Null("the query or the response has no letters")
    return int(asked != answered)


def user_feedback(view: View) -> Value:
    """What the user thought of the answer, as the application recorded it.

    Formula: feedback.score, carried over on the application's own scale.
    Range: the application's; higher is better.
    Undefined: without `feedback`, or when it has no score.
    Reference: the event.

    >>> from ragweir.metrics.view import example
    >>> user_feedback(example(feedback={"score": 1.0, "label": "thumbs_up"}))
    1.0
    """
    feedback = view.interaction.feedback
    if feedback is None or feedback.score is None:
        return Null("the event's feedback has no score")
    return feedback.score


_DOCUMENT = "document 003"
_BEYOND = "beyond the documents"

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
