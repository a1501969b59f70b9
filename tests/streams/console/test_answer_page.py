"""The page of one answer."""

import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import orjson
import pytest
from scored_answers import RETURNS, pages_of, score, shown

from ragweir.schemas.label import Label
from ragweir.streams.analysis.evidence.answer_evidence import answer_evidence, evidence_data


def words(html: str) -> str:
    """The texts of a page, on one line."""
    return " ".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


@pytest.mark.slow
def test_the_verdict_the_sentences_and_the_passages_are_shown(tmp_path: Path) -> None:
    """What a person reads first, the words and values without support, and the way from a sentence to its passage."""
    with pages_of(tmp_path) as pages:
        html = pages.page("/answers/returns")
    text = words(html)
    assert "1 of 3 sentences lacks support; 2 numbers occur in no passage; not judged; nobody labelled it" in text
    assert "Differs 90 here; 30 in passage 2" in text
    assert "In no passage Vouchers, wait, Lyon, 2030" in text
    assert '<mark class="mark differs">90</mark>' in html
    assert '<mark class="mark unsupported">voucher</mark>' in html
    assert '<a class="nearest" href="#p2-1"' in html
    assert '<span id="p2-1" class="said"><mark class="mark shared">Return</mark>' in html
    first, second = (html.index(f'<article id="p{number}"') for number in (2, 1))
    assert first < second, "the cited passage is the first"
    assert "1 answer is kept, from 2026-11-21 10:03:04 UTC to 2026-11-21 10:03:04 UTC." in text
    assert f"ragweir explain returns --file {tmp_path}/evaluations.jsonl" in text


@pytest.mark.slow
def test_the_page_shows_what_explain_prints(tmp_path: Path) -> None:
    """Every sentence that explain names, with its words, is on the page; both are of one function."""
    with pages_of(tmp_path) as pages:
        text = words(pages.page("/answers/returns"))
        stored = pages.content.store.found("returns")
        assert stored is not None
        evaluation = pages.content.reader.evaluation(stored.at, "returns")
        assert evaluation is not None
        original = pages.content.reader.original(evaluation)
        data = evidence_data(answer_evidence(evaluation, original, pages.content.rules))
    assert data["verdict"] in text
    assert len(data["sentences"]) == 2
    for sentence in data["sentences"]:
        assert sentence["text"] in text
        assert set(sentence["in_no_passage"]) <= set(re.findall(r"\w+", text))


@pytest.mark.slow
def test_an_answer_that_is_not_there_and_a_query_that_is_none(tmp_path: Path) -> None:
    with pages_of(tmp_path) as pages:
        assert "There is no answer with this id here." in pages.page("/answers/other", 404)
        assert "there is no parameter" in pages.page("/answers/returns?x=1", 400)


@pytest.mark.slow
def test_previous_and_next_are_those_of_the_list(tmp_path: Path) -> None:
    """The query string that a person came with is kept, and the places follow its order."""
    rows = [RETURNS | {"event_id": each, "ended_at": f"2026-11-21T10:03:0{place}Z"} for place, each in enumerate("abc")]
    with pages_of(tmp_path, rows) as pages:
        html = pages.page("/answers/b?application=support-bot")
    assert '<a rel="prev" data-key="k" href="/answers/c?application=support-bot">' in html
    assert '<a rel="next" data-key="j" href="/answers/a?application=support-bot">' in html
    assert '<a href="/answers?application=support-bot">Answers</a>' in html


@pytest.mark.slow
@pytest.mark.parametrize("event_id", ["a/b?c=1#d", "..", ".", "a b&c", "é\u202e", "x" * 200])
def test_any_id_has_an_address(tmp_path: Path, event_id: str) -> None:
    """The list leads to the page, whatever the id is."""
    with pages_of(tmp_path, [RETURNS | {"event_id": event_id}]) as pages:
        (address,) = re.findall(r'<a data-row href="([^"]*)"', pages.page("/answers"))
        assert "1 of 3 sentences lacks support" in pages.page(address.replace("&amp;", "&"))


@pytest.mark.slow
def test_texts_can_be_switched_off_or_be_gone(tmp_path: Path) -> None:
    """The scores stay, and the reason is said; an event that is not the one that was scored is not shown."""
    with pages_of(tmp_path, texts="off") as pages:
        html = pages.page("/answers/returns")
    assert "voucher" not in html
    assert "the console is set to show no texts (console.texts)" in html
    assert "33% of its sentences lack support" in html
    with shown(tmp_path, [tmp_path / "evaluations.jsonl"]) as pages:
        (tmp_path / "events.jsonl").write_bytes(orjson.dumps(RETURNS | {"event_id": "other"}))
        html = pages.page("/answers/returns")
        assert "holds another event than the one that was evaluated" in html
        assert "voucher" not in html
        (tmp_path / "evaluations.jsonl").write_bytes(b"{}")
        assert "The evaluation cannot be read again" in pages.page("/answers/returns")


MAIL = "ada@example.org"


@pytest.mark.slow
def test_redacted_texts_hold_no_personal_data(tmp_path: Path) -> None:
    """Whatever judge.redaction is: in all texts of an event, and in the judge's words."""
    row = RETURNS | {
        "query": f"I am {MAIL}?",
        "response": f"Write to {MAIL}.",
        "contexts": [{"text": f"Write to {MAIL}."}],
        "history": [{"role": "user", "text": MAIL}],
        "spans": [{"kind": "tool", "name": MAIL, "error": MAIL}],
        "error": MAIL,
        "expected": [MAIL],
        "feedback": {"label": "down", "comment": MAIL},
    }
    out = score(tmp_path, [row])
    evaluation = orjson.loads(out.read_bytes())
    evaluation |= {"explanations": {"judge_faithfulness": MAIL}, "evidence": {"refusal": [MAIL]}}
    evaluation["scores"]["judge_faithfulness"] = 0.5
    out.write_bytes(orjson.dumps(evaluation))
    seen = {}
    for mode in ("on", "redacted", "off"):
        with shown(tmp_path, [out], texts=mode) as pages:
            seen[mode] = words(pages.page("/answers/returns"))
    assert [text.count(MAIL) for text in seen.values()] == [11, 0, 0]
    assert seen["redacted"].count("[email]") == 11
    assert "the console is set to show no texts" in seen["off"]


@pytest.mark.slow
def test_labels_of_people_are_in_the_verdict(tmp_path: Path) -> None:
    """The labels that hold, each with its answer."""
    label = Label(
        event_id="returns", question="supported", value=False, rater="abcdef0123", kind="expert", blind=True,
        time=datetime(2026, 11, 22, tzinfo=UTC),
    )  # fmt: skip
    taken_back = label.model_copy(update={"rater": "b", "value": "withdrawn"})
    with pages_of(tmp_path, labels=[label, taken_back]) as pages:
        text = words(pages.page("/answers/returns"))
    assert "1 person calls it bad (supported)" in text
    assert "supportednoabcdef01expert, blind2026-11-22 00:00:00 UTC" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trace_id", "is_linked"),
    [("0af7651916cd43dd8448eb211c80319c", True), ("javascript:alert(1)", False), ("../x", False)],
)
def test_only_hexadecimal_ids_lead_to_traces(tmp_path: Path, trace_id: str, is_linked: bool) -> None:
    """An id of an event enters no URL unless it is one of OpenTelemetry."""
    with pages_of(tmp_path, [RETURNS | {"trace_id": trace_id}], trace_url="https://t.example/{trace_id}") as pages:
        assert ("https://t.example/" in pages.page("/answers/returns")) == is_linked


@pytest.mark.slow
def test_sentences_without_support_are_never_folded(tmp_path: Path) -> None:
    """Behind 8,000 characters only those with support are folded away."""
    long = "Call us at noon. " * 600 + "Vouchers wait in Lyon. " + "Call us at noon. " * 3
    with pages_of(tmp_path, [RETURNS | {"response": long}]) as pages:
        html = pages.page("/answers/returns")
    at = html.index("Vouchers")
    before = html[html.index('<ol class="sentences">') : at]
    assert before.count("<details>") == before.count("</details>") == 1
    assert html[at : html.index("</ol>", at)].count("<details>") == 1


@pytest.mark.slow
def test_the_answer_of_several_files_is_read_in_its_own(tmp_path: Path) -> None:
    """The place of a file among those that were named is that of its answers."""
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
    files = [score(first, [RETURNS | {"event_id": "other"}]), score(second, [RETURNS])]
    with shown(second, files) as pages:
        assert "1 of 3 sentences lacks support" in pages.page("/answers/returns")
        assert "holds another event" in pages.page("/answers/other")


@pytest.mark.slow
def test_the_same_sentence_of_a_passage_is_repeated_once(tmp_path: Path) -> None:
    """Narrow pages have it under the sentence of the answer, also under the first one."""
    response = "Return shoes within 30 weeks. Return shoes within 60 weeks. Lyon is far. Return shoes within 9 weeks."
    with pages_of(tmp_path, [RETURNS | {"response": response}]) as pages:
        html = pages.page("/answers/returns")
    assert html.count('<blockquote class="excerpt"') == 2
    assert html.index("<blockquote") < html.index('<li id="s2"')


@pytest.mark.slow
def test_only_long_passages_can_be_shown_in_part(tmp_path: Path) -> None:
    """Narrow pages show the begin of such a passage until its box is ticked."""
    contexts = [{"text": "Return shoes within 30 days. " * 20}, {"text": "Call us at noon."}]
    with pages_of(tmp_path, [RETURNS | {"contexts": contexts}]) as pages:
        html = pages.page("/answers/returns")
    assert html.count('<input type="checkbox" class="whole"') == html.count('for="whole-1"') == 1
