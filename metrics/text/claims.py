"""Claims: extraction of the statements of a text, as subject, verb and object, by rules in one pass.

The lexical evaluators parse with spaCy, which takes milliseconds per event; these rules take microseconds. A sentence
has no claims if it is a question (a question mark ends it) or hedges: it has a word like "may", "might", "could" or
"appears" ("May", capitalised, is the month). Other sentences are read from left to right, clause by clause:

- A clause ends at a joining word ("and", "which", "because", ...); one that "if", "unless" or "whether" opens has no
  claim.
- Its verb is the first auxiliary ("is", "has", "will", ...) or form of an assertive verb (the table below). Such a
  form is a noun, or no assertion, right after an article, a preposition and the like: "the costs", "to use".
- Its subject is the last phrase before the verb. A pronoun is a subject without words. A clause that opens with its
  verb has the subject of the preceding claim of the sentence; without one it is an order and has no claim. Clauses
  about first persons and the sources themselves ("I", "the documents do not mention") have no claims.
- Its object is the first phrase after the verb. A word after an auxiliary that looks like a participle belongs to the
  verb: "was founded in 1889".

A phrase is a run of content tokens, at most four, joined over "of" and articles: "the law of the state". A claim
needs a subject and an object or a participle, and consists of the content stems of all three.

>>> from ragweir.metrics.text.text import Text
>>> def read(raw): return [sorted(claim.stems) for claim in claims(Text(raw, 100))]
>>> read("The Eiffel Tower was completed in 1889.")
[['1889', 'compl', 'eiffe', 'tower']]
>>> read("The plan covers dental care and includes two cleanings.")
[['care', 'cover', 'denta', 'plan'], ['clean', 'inclu', 'two']]
>>> read("The plan may cover dental care. It appears to cover cleanings.")
[]
>>> read("Registration ended late in May.")
[['ended', 'late', 'regis']]
>>> read("Does the plan cover dental care? Ask your dentist. I have no information.")
[]

Known limits: the tables are English; nouns and verbs of the same form are distinguished by the preceding word alone;
words are compared, not meanings, so negation is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ragweir.metrics.text.text import Text
from ragweir.metrics.text.words import STOP_WORDS

MIN_STEMS = 2
"""Minimum number of stems of a claim: a single word cannot be checked."""
PHRASE_TOKENS = 4
"""Maximum length of a phrase; of longer ones the tokens nearest the verb count."""

_REGULAR = """
    accept access achieve acquire act add address adopt advance affect aid aim allow analyze announce appoint approve
    argue arrive ask assist assume attack attract award base belong benefit boost borrow call cause celebrate change
    charge claim close collect combine compare complete concern conclude conduct confirm connect consider consist
    constitute contain contribute convert cost cover create cross cure damage date declare decline decrease define
    deliver demonstrate depend describe design destroy determine develop differ direct discover discuss display divide
    earn eliminate employ enable end enhance ensure enter establish examine exceed exist expand expire explain express
    extend face fail feature file finish fix focus follow form found fund gain generate govern grant happen help host
    identify impact implement impose improve include increase indicate influence inform inspire install introduce
    invent invest involve issue join kill lack last launch limit link list live locate lower maintain manage manufacture
    mark mean measure mention merge monitor move name need note number obtain occur offer open operate oppose order
    organize originate own perform play prevent process produce prohibit promote propose protect prove provide publish
    purchase raise range reach receive recognize recommend record reduce refer reflect refuse regulate reject relate
    release rely remain remove replace report represent require reside restrict result retain return reveal save score
    secure select separate serve share show sign solve span specialize specify star start state store succeed support
    surround target tend total touch track trade train transfer transform treat turn use value vary visit vote work
"""
_DOUBLED = "admit ban begin commit control cut drop equip occur permit plan refer ship stop submit"
_IRREGULAR = """
    became become becomes began begin begins begun bought bring brings brought build builds built buy buys came come
    comes cost cuts drew draw draws drawn ate eat eats fell fall falls fed feed feeds felt feel feels found find finds
    flew fly flies forbade forbid forbids gave give gives given goes went gone grew grow grows grown held hold holds
    kept keep keeps knew know knows known laid lay lays led lead leads left leave leaves lent lend lends lie lies lost
    lose loses made make makes meant met meet meets paid pay pays put puts ran run runs said say says saw see sees
    seen sent send sends set sets sold sell sells spent spend spends spoke speak speaks spread spreads stood stand
    stands struck strike strikes swam taught teach teaches took take takes taken told tell tells thrown understood
    won win wins written write writes wrote
"""
_AUXILIARIES = frozenset(
    """
    am are can did do does had has have is must shall was were will aren't can't cannot didn't doesn't don't hadn't
    hasn't haven't isn't wasn't weren't won't
    """.split()
)
_CONTRACTED = frozenset("he's here's it's she's that's there's they're they've they'll it'll you're you've".split())
"""Contractions of subject and auxiliary."""
_HEDGES = frozenset(
    """
    allegedly apparently appear appeared appears arguably believed could likely may maybe might perhaps plausibly
    possible possibly potentially presumably probable probably reportedly seem seemed seemingly seems suggest
    suggested suggests supposedly uncertain unclear unlikely would
    """.split()
)
_ALWAYS_HEDGES = _HEDGES - {"may"}
_JOINTS = frozenset(
    """
    although and as because but if nor or since so than that then though unless until when where whereas whether which
    while who whom whose
    """.split()
)
_CONDITIONS = frozenset("if unless whether".split())
_RELATIVES = frozenset("that which who".split())
_PRONOUNS = frozenset("he her here his it its she that their there these they this those you your".split())
_SPEAKERS = frozenset("i i'd i'll i'm i've let's me my our us we we'd we'll we're we've".split())
_SOURCES = frozenset("context contexts document documents excerpt excerpts passage passages snippet snippets".split())
_EXCLUDED_SUBJECTS = _SPEAKERS | _SOURCES
"""Subjects of clauses that have no claims."""
_BEFORE_NOUNS = frozenset(
    """
    a about against all an any at between both by each every few for from her his in into its many more most my no of on
    other our over several some such the their these this those through to under very with without your
    """.split()
)
"""Words after which a word is a noun or an infinitive."""
_ARTICLES = frozenset("a an the".split())
_FILLERS = frozenset("actually oh okay sure sorry well wow yea yeah yep yes".split())
_QUESTION_MARKS = "?？؟"
_BETWEEN = frozenset("also already always be been being never no not now often only still yet".split()) | _AUXILIARIES
"""Words that may occur between an auxiliary and its participle, or a verb and its object."""


def _forms() -> frozenset[str]:
    forms = set(_IRREGULAR.split())
    for verb in (_REGULAR + _DOUBLED).split():
        mute, soft = verb.endswith("e"), verb.endswith("y") and verb[-2] not in "aeou"
        forms |= {verb, verb[:-1] + "ies" if soft else verb + ("es" if verb.endswith(("ch", "s", "sh", "x")) else "s")}
        forms.add(verb[:-1] + "ied" if soft else verb + ("d" if mute else "ed"))
    forms |= {verb + verb[-1] + "ed" for verb in _DOUBLED.split()}
    return frozenset(forms)


_VERBS = _forms()
_FINITE = _VERBS | _AUXILIARIES | _CONTRACTED


@dataclass(frozen=True, slots=True)
class Claim:
    """The content stems of a clause's subject, verb and object, and the range of its tokens."""

    stems: frozenset[str]
    start: int
    stop: int


def _hedges(text: Text, start: int, stop: int, *, month: bool) -> bool:
    """Return True if a sentence hedges; `month` is True if the text may contain the month of May."""
    words = text.tokens[start:stop]
    if _HEDGES.isdisjoint(words):
        return False
    if not month or not _ALWAYS_HEDGES.isdisjoint(words):
        return True
    written = (text.text[first:last] for first, last in text.spans[start:stop])
    return any(word == "may" and own != "May" for word, own in zip(words, written, strict=True))


def _asks(text: Text, stop: int) -> bool:
    """Return True if a question mark follows the sentence's last token."""
    spans = text.spans
    end = spans[stop][0] if stop < len(spans) else len(text.text)
    return any(mark in text.text[spans[stop - 1][1] : end] for mark in _QUESTION_MARKS)


def _phrases(text: Text, start: int, stop: int) -> Iterator[list[str]]:
    """Yield the phrases between two positions, each as its content stems in order."""
    phrase: list[str] = []
    linked = False
    for word, stem in zip(text.tokens[start:stop], text.token_stems[start:stop], strict=True):
        if stem and word not in _FILLERS:
            phrase.append(stem)
            linked = False
        elif word == "of":
            linked = True
        elif phrase and (stem or word in STOP_WORDS) and not (linked and word in _ARTICLES):
            yield phrase
            phrase, linked = [], False
    if phrase:
        yield phrase


def _verb(text: Text, start: int, stop: int) -> int:
    """Return the position of the clause's verb, or `stop`."""
    tokens = text.tokens
    for position in range(start, stop):
        word = tokens[position]
        if word in _FINITE and (word not in _VERBS or position == start or tokens[position - 1] not in _BEFORE_NOUNS):
            return position
    return stop


def _subject(text: Text, start: int, verb: int, opener: str) -> list[str] | None:
    """Return the stems of the subject of a clause; an empty list for a pronoun, None without a subject."""
    before = text.tokens[start:verb]
    if not _EXCLUDED_SUBJECTS.isdisjoint(before):
        return None
    *_, subject = [], *_phrases(text, start, verb)
    if subject:
        return subject[-PHRASE_TOKENS:]
    refers = opener in _RELATIVES if verb == start else not _PRONOUNS.isdisjoint(before)
    return [] if refers or text.tokens[verb] in _CONTRACTED else None


def _clause(text: Text, start: int, stop: int, opener: str) -> Claim | None:
    """Return the claim of one clause, if any; `opener` is the joining word before it."""
    tokens, stems = text.tokens, text.token_stems
    verb = _verb(text, start, stop)
    if verb == stop:
        return None
    found = _subject(text, start, verb, opener)
    if found is None:
        return None
    auxiliary = tokens[verb] not in _VERBS
    if not auxiliary:
        found.append(stems[verb])
    after = verb + 1
    while after < stop and tokens[after] in _BETWEEN:
        after += 1
    participle = auxiliary and after < stop and (tokens[after] in _VERBS or tokens[after].endswith("ed"))
    if participle:
        found.append(stems[after])
        after += 1
    object_ = next(_phrases(text, after, stop), [])[:PHRASE_TOKENS]
    if not (object_ or participle) or len(found) + len(object_) < MIN_STEMS:
        return None
    return Claim(frozenset(found + object_), start, stop)


def _clauses(text: Text, start: int, stop: int) -> Iterator[tuple[str, int, int]]:
    """Yield the clauses of a sentence: the joining word before each ("" for the first), its start and its stop."""
    opener = ""
    for position, word in enumerate(text.tokens[start:stop], start):
        if word in _JOINTS:
            yield opener, start, position
            opener, start = word, position + 1
    yield opener, start, stop


def claims(text: Text) -> tuple[Claim, ...]:
    """Return the distinct claims of a text, in order. The tables are English: check `Text.is_supported` first."""
    found: dict[frozenset[str], Claim] = {}
    # The positions of tokens are expensive, so these conditions come first.
    questions = any(mark in text.text for mark in _QUESTION_MARKS)
    hedges = not _HEDGES.isdisjoint(text.distinct)
    month = "May" in text.text
    for start, stop in text.sentences:
        if (hedges and _hedges(text, start, stop, month=month)) or (questions and _asks(text, stop)):
            continue
        has_subject = False
        for opener, first, last in _clauses(text, start, stop):
            if opener in _CONDITIONS:
                continue
            # "The plan covers care and includes ...": the next clause has the same subject, as after "who".
            claim = _clause(text, first, last, "who" if has_subject else opener)
            if claim:
                found.setdefault(claim.stems, claim)
                has_subject = True
    return tuple(found.values())
