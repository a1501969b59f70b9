import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics.text.claims import PHRASE_TOKENS, claims
from ragweir.metrics.text.text import Text

MADE = [
    # Subject, verb, object.
    ("The plan covers dental care.", ["plan cover denta care"]),
    ("Acme acquired Globex in 2019.", ["acme acqui globe"]),
    ("France has 67 million inhabitants.", ["franc 67000000 inhab"]),
    ("The capital of France is Paris.", ["capit franc paris"]),
    ("The law of the state requires a licence.", ["law state requi licen"]),
    # The participle belongs to the verb; it may stand for the object.
    ("The Eiffel Tower was completed in 1889.", ["eiffe tower compl 1889"]),
    ("The bridge was demolished.", ["bridg demol"]),
    ("The bridge has not yet been painted red.", ["bridg paint red"]),
    # A pronoun is a subject without words.
    ("It requires a licence.", ["requi licen"]),
    ("It's a regional programme.", ["regio progr"]),
    # One claim a clause; a clause may go on with the subject before it.
    ("The plan covers care and includes cleanings.", ["plan cover care", "inclu clean"]),
    ("The fee, which covers 3 visits, includes tax.", ["cover 3 visit inclu tax"]),
    ("Acme sells apples and pears.", ["acme sells apple"]),
    ("Acme grew because Globex failed tests.", ["globe faile tests"]),
    ("Acme sells apples. Acme sells apples.", ["acme sells apple"]),
    # Noun or verb is told by the word before.
    ("The costs include the visits of nurses.", ["costs inclu visit nurse"]),
    ("Yes, the office opens its doors.", ["offic opens doors"]),
    # The month of May does not hedge, and "may" elsewhere in the text does not matter.
    ("Acme opened its doors in May.", ["acme opene doors"]),
    ("It may rain. Acme sells apples.", ["acme sells apple"]),
    ("You may leave early. The office closed its doors in May 2020.", ["offic close doors"]),
]

NOT_MADE = [
    "",
    "Paris.",
    "A red bridge over the river",
    # Hedged.
    *(f"The plan {hedge} dental care." for hedge in ("may cover", "might cover", "could cover", "appears to cover")),
    "Perhaps the plan covers dental care.",
    "THE PLAN MAY COVER DENTAL CARE.",
    "In May the plan may cover dental care.",
    # Asked, ordered, conditional.
    "Does the plan cover dental care?",
    "The plan covers dental care?",
    "Ask your dentist.",
    "Include the visits.",
    "Whether the plan covers dental care",
    # Of the speaker and the sources.
    "I have no information.",
    "We found three plans.",
    "The provided documents do not mention dental care.",
]


@pytest.mark.parametrize(("raw", "made"), MADE)
def test_made(raw: str, made: list[str]) -> None:
    """The sentence asserts these claims."""
    assert [claim.stems for claim in claims(Text(raw))] == [frozenset(stems.split()) for stems in made]


@pytest.mark.parametrize("raw", NOT_MADE)
def test_not_made(raw: str) -> None:
    """The sentence asserts nothing that could be held against the contexts."""
    assert claims(Text(raw)) == ()


def test_a_condition_asserts_nothing_but_its_consequence_does() -> None:
    """What "if" opens is left out, the main clause before it is not."""
    assert [claim.stems for claim in claims(Text("The plan covers care if the member paid fees."))] == [
        frozenset({"plan", "cover", "care"})
    ]


def test_phrases_are_short() -> None:
    """A long subject counts by its tokens nearest the verb, a long object by its first."""
    (claim,) = claims(Text("alpha bravo delta kilo lima covers oscar papa romeo tango yoga."))
    assert claim.stems == set("bravo delta kilo lima cover oscar papa romeo tango".split())
    assert len(claim.stems) == 2 * PHRASE_TOKENS + 1


def test_a_claim_stands_where_its_clause_does() -> None:
    """The positions are those of the clause's tokens."""
    text = Text("Yes. Acme grew and Globex failed tests.")
    (claim,) = claims(text)
    assert text.tokens[claim.start : claim.stop] == ["globex", "failed", "tests"]


WORDS = "the plan may May covers care is was has and which if of I ? . , Globex 12 opened it 東京".split(" ")


@given(st.lists(st.sampled_from(WORDS), max_size=40).map(" ".join))
def test_claims_hold_what_their_clauses_hold(raw: str) -> None:
    """A claim's stems are content stems between its positions, distinct from other claims', and in bounds."""
    text = Text(raw)
    found = claims(text)
    assert len({claim.stems for claim in found}) == len(found)
    for claim in found:
        assert claim.stems <= set(text.token_stems[claim.start : claim.stop]) - {""}
        assert 0 <= claim.start < claim.stop <= len(text.tokens)


@pytest.mark.slow
@given(st.text(st.characters(exclude_categories=()), max_size=80))
def test_any_text_is_survived(raw: str) -> None:
    """No text makes the rules raise."""
    claims(Text(raw))


@pytest.mark.parametrize("raw", ["is " * 60_000, "and " * 60_000, "plan of the " * 30_000, "a covers b and " * 20_000])
def test_long_runs_are_survived(raw: str) -> None:
    """Texts that are all verb, all joint or all phrase are read like others."""
    claims(Text(raw))
