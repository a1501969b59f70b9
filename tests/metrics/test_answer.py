"""Metrics of the kind of an answer: the guide's phrases and their bounds, refusals, and facts of the event."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.metric import Null
from ragweir.metrics.scores.answer import (
    METRICS,
    answered_without_context,
    citation_count,
    citation_validity,
    dont_know,
    empty_response,
    hedge_count,
    language_mismatch,
    refusal,
    refusal_correct,
    repetition,
    response_words,
    truncated,
    user_feedback,
)
from ragweir.metrics.view import example

CATALOGUE = Catalogue(METRICS)
DATA = Path(__file__).parents[3] / "shared" / "data"

TWELVE = (
    "i don't know",
    "i do not know",
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


# The document's "don't know"


@pytest.mark.slow
@pytest.mark.parametrize("phrase", TWELVE)
def test_each_phrase_of_the_document_is_found_in_any_case_and_with_either_apostrophe(phrase: str) -> None:
    for said in (
        phrase,
        phrase.upper(),
        phrase.replace("'", "’"),
        f"Well, {phrase}; sorry.",
        phrase.replace(" ", "\n"),
    ):
        assert dont_know(example(response=said)) == 1, said


@pytest.mark.parametrize("phrase", TWELVE)
def test_a_phrase_inside_other_words_is_not_found(phrase: str) -> None:
    assert dont_know(example(response=f"x{phrase}, and {phrase}x, at length")) == 0


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("unknown", 1),
        ("N/A", 1),
        ("n/a.", 1),
        ("None", 1),
        ("null", 1),
        ("  None   \n", 1),
        ("None here", 1),  # nine characters
        ("None at it", 0),  # ten characters
        ("nonesuch", 0),
        ("annulled", 0),
        ("", 0),
        ("42", 0),
        ("Cornish heath", 0),
    ],
)
def test_the_short_answer_rule_needs_a_whole_word_and_under_ten_characters(response: str, value: int) -> None:
    assert dont_know(example(response=response)) == value


# Refusals, in wordings of many systems

REFUSALS = """
I do not have specific information on that.
I don't have that information at the moment.
I’m sorry, but I can’t assist with that request.
I cannot answer this question based on the provided context.
I couldn't find an answer to your question.
I did not find any relevant information in the sources.
I haven't been able to locate that information.
I am unable to provide an answer, as the manual is silent.
I'm not able to find details on that.
I lack the information needed to answer.
I must decline to answer this.
I have no idea.
I'm not aware of such a rule.
As an AI language model, I don't have access to real-time data.
We do not have data on that.
Sorry, no data on that.
The documents do not mention a waiting period.
The passage makes no mention of his birthplace.
The article provides no details about the author's education.
The text doesn't seem to include anything on fees.
The documents say nothing about parental leave.
The context lacks details on this.
None of the passages mention the price.
Nothing in the documents addresses this question.
There is no mention of a fee.
There isn't enough information to say.
No information is available on this topic.
Not enough context to tell.
The exact number is not provided in the context.
This information is not available.
The answer cannot be determined from the text.
It is not possible to determine the date.
It is not stated when the contract ends.
That is beyond the scope of these documents.
Unable to answer based on the passages.
Not specified in the document.
Unanswerable
N/A
Thank you for asking. I do not have information about that.
While I'd like to help, I cannot answer that from the documents.
Although the documents discuss mortgages, they do not mention debts.
The context does not say. You may want to call the office. They open at nine. It is free.
""".strip().splitlines()

ANSWERS = """
No, you cannot return the item after 30 days.
The premium is $604.
Unfortunately, you can't cancel the contract early.
I'm sorry to hear that. You can reset your password on the settings page.
The policy does not cover flood damage.
The company does not disclose its revenue to the public.
There is no evidence for that.
There is no fee for the first transfer.
The API does not support batch requests.
He did not know that his father was alive.
She was unable to provide for her family.
If you do not have the information, call the office.
If the document does not mention a date, it is void.
You may not be able to find the option on old versions.
The law does not specify a minimum age, so each state sets its own.
Don't give out your personal information.
While the documents give no price, they say that the plan is free for students.
Yes. It costs $5. It takes a day. The documents do not mention weekends, though.
Information about pricing is given on page 12.
""".strip().splitlines()


@pytest.mark.parametrize("response", REFUSALS)
def test_a_refusal_is_recognised_in_many_wordings(response: str) -> None:
    assert refusal(example(response=response)) == 1


@pytest.mark.parametrize("response", ANSWERS)
def test_an_answer_with_negations_is_no_refusal(response: str) -> None:
    assert refusal(example(response=response)) == 0


def test_an_answer_of_which_half_the_sentences_decline_is_a_refusal() -> None:
    answer, decline = "It is red. It is round. ", "I do not know its price. "
    assert refusal(example(response=answer + decline * 2)) == 1
    assert refusal(example(response=answer + decline)) == 0


def test_a_language_without_word_lists_gives_no_verdict_on_refusing_and_hedging() -> None:
    view = example(response="Я не знаю, когда открылся музей.", answerable=False, contexts=[])
    reason = Null("no word list serves the response's language")
    for metric in (refusal, refusal_correct, answered_without_context, hedge_count):
        assert metric(view) == reason


def rows(name: str) -> Iterable[dict[str, object]]:
    return map(json.loads, (DATA / name).read_text(encoding="utf-8").splitlines())


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the labelled answers are not here")
def test_refusals_are_found_among_real_answers_and_few_others_are() -> None:
    """Of MTRAG's 201 answers 17 open with a refusal, by reading; dialogue that says "I'm not sure, but" admits it."""
    mtrag = list(rows("mtrag.jsonl"))
    refused = [index for index, row in enumerate(mtrag) if refusal(example(response=row["response"])) == 1]
    assert refused == [9, 14, 20, 40, 43, 59, 76, 81, 91, 92, 102, 126, 143, 148, 154, 169, 178]
    dialogue = [row for row in rows("begin.jsonl") if refusal(example(response=row["response"])) == 1]
    assert len(dialogue) <= 8


# What follows from refusing


@pytest.mark.parametrize(
    ("contexts", "response", "value"),
    [
        ([], "The premium is $604.", 1),
        ([{"text": " "}, {"text": ""}], "The premium is $604.", 1),
        ([{"text": "a"}], "The premium is $604.", 0),
        ([], "I do not have that information.", 0),
        ([], "", 0),
    ],
)
def test_answering_without_context_needs_empty_contexts_and_an_answer(
    contexts: list[dict[str, str]], response: str, value: int
) -> None:
    assert answered_without_context(example(contexts=contexts, response=response)) == value


@pytest.mark.parametrize(
    ("answerable", "response", "value"),
    [
        (True, "It is $604.", 1),
        (True, "I do not know.", 0),
        (False, "It is $604.", 0),
        (False, "I do not know.", 1),
        (True, " ", Null("the response is empty")),
        (False, "", Null("the response is empty")),
    ],
)
def test_refusing_is_right_exactly_when_there_is_no_answer(answerable: bool, response: str, value: object) -> None:
    assert refusal_correct(example(answerable=answerable, response=response)) == value


def test_what_the_event_does_not_say_is_null() -> None:
    scored = CATALOGUE.score(example(response="It is $604."))
    assert scored.reasons == {
        "answered_without_context": "the event has no contexts",
        "refusal_correct": "the event has no answerable",
        "truncated": "the event has no finish_reason",
        "citation_validity": "the event has no contexts",
        "language_mismatch": "the query or the response has no letters",
        "user_feedback": "the event has no feedback",
    }


@pytest.mark.parametrize(("response", "value"), [("", 1), (" \n\t", 1), ("\u3000", 1), (".", 0), ("no", 0)])
def test_an_empty_response_is_white_space_alone_and_no_refusal(response: str, value: int) -> None:
    view = example(response=response)
    assert empty_response(view) == value
    assert refusal(view) == 0


@pytest.mark.parametrize(
    ("reason", "value"),
    [("length", 1), ("LENGTH", 1), ("max_tokens", 1), ("MAX_TOKENS", 1), ("stop", 0), ("content_filter", 0), ("", 0)],
)
def test_truncated_is_a_vendors_word_for_out_of_room(reason: str, value: int) -> None:
    assert truncated(example(finish_reason=reason)) == value


# Counts


@pytest.mark.parametrize(
    ("response", "count"),
    [
        ("", 0),
        ("It is so.", 0),
        ("It may, might or could be.", 3),
        ("I think it's possible, as far as I know.", 3),
        ("It appears to rain; the sun appears on the flag.", 1),
        ("It closes in May. May is warm.", 0),
        ("It may close in May.", 1),
        ("Mighty couldn't, likelyhood", 0),
    ],
)
def test_hedges_are_counted_where_they_stand_and_the_month_is_none(response: str, count: int) -> None:
    assert hedge_count(example(response=response)) == count


def test_words_are_the_tokens_of_the_response() -> None:
    assert response_words(example(response="Rule C-1 costs $1,200 [1]; it's due 2025-12-09.")) == 7
    assert response_words(example(response="")) == 0


@given(st.lists(st.sampled_from("abc"), max_size=30))
def test_repetition_is_the_share_of_triples_seen_before(words: list[str]) -> None:
    triples = [tuple(words[place : place + 3]) for place in range(len(words) - 2)]
    again = sum(triple in triples[:place] for place, triple in enumerate(triples))
    value = repetition(example(response=" ".join(words)))
    assert value == pytest.approx(again / len(triples) if triples else 0, abs=1e-9)


@pytest.mark.parametrize(
    ("response", "count", "validity"),
    [
        ("So [1].", 1, 1.0),
        ("So [1][2], and [2].", 3, 1.0),
        ("So [1, 3].", 2, 0.5),
        ("So [0].", 1, 0.0),
        ("So.", 0, Null("the response has no citation marks")),
    ],
)
def test_citations_are_valid_when_they_name_a_context(response: str, count: int, validity: object) -> None:
    view = example(response=response, contexts=[{"text": "a"}, {"text": "b"}])
    assert citation_count(view) == count
    assert citation_validity(view) == validity


def test_no_citation_is_valid_when_retrieval_found_nothing() -> None:
    assert citation_validity(example(response="So [1].", contexts=[])) == 0


@pytest.mark.parametrize(
    ("query", "response", "value"),
    [
        ("What is it?", "A fee.", 0),
        ("What is it?", "Это сбор.", 1),
        ("これは何ですか", "料金です", 0),
        ("What is it?", "604", Null("the query or the response has no letters")),
        ("?", "A fee.", Null("the query or the response has no letters")),
    ],
)
def test_a_language_mismatch_is_one_of_scripts(query: str, response: str, value: object) -> None:
    assert language_mismatch(example(query=query, response=response)) == value


def test_feedback_is_carried_over_as_it_is() -> None:
    assert user_feedback(example(feedback={"score": -3.5})) == -3.5
    assert user_feedback(example(feedback={"label": "thumbs_up"})) == Null("the event's feedback has no score")


TRYING = [
    "\ud800 lone",
    "مرحبا بالعالم [1]",
    "東京都は大きい",
    "👍🏽 x\u0301\u0301",
    "I do not " * 15_000,
    "no. " * 15_000,
]


@pytest.mark.parametrize("response", TRYING)
def test_every_text_is_survived(response: str) -> None:
    scored = CATALOGUE.score(example(response=response, contexts=[], answerable=True, finish_reason="stop"))
    assert not scored.raised
