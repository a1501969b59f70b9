"""An event with attack texts in every field, through every page: text stays text."""

from collections.abc import Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import orjson
import pytest
from scored_answers import ShownPages, score, shown
from typing_extensions import override

from ragweir.schemas.interaction import Interaction
from ragweir.schemas.label import Label

ATTACKS = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</textarea></title></style><svg onload=alert(1)>",
    "javascript:alert(1)//{{7*7}}{% raw %}",
    "&lt;b&gt;%3Cscript%3E&#x3c;script>",
    "\x00\x1b[2J\x9b31m\u202egnp.exe\u2066\u200b\ufeff\U000e0041",
    "url(https://evil.example/x) ; background: red",
)
ATTACK = " ".join(ATTACKS)
ID = ATTACK[:150]
ALLOWED = frozenset(
    """
    a article b bdi blockquote body button code dd details div dl dt fieldset footer form h1 h2 h3 head header
    html input kbd label legend li link main mark meta nav ol option p rect script section select span summary svg
    table tbody td th thead time title tr ul
    """.split()
)
STARTS = ("/", "#")


class Strict(HTMLParser):
    """Elements, attributes and addresses that the console's own templates have, and no other."""

    lines = "\n\t"

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []
        self.scripts = 0

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        if tag not in ALLOWED:
            self.wrong.append(tag)
        for name, value in attrs:
            if (tag, name) != ("option", "value") and not (value or "").isprintable():
                self.wrong.append(f"{tag} {name}={value!r}")
            if name.startswith("on") or name in ("style", "srcdoc", "http-equiv"):
                self.wrong.append(f"{tag} {name}")
            if name in ("href", "src", "action") and not (value or "").startswith(STARTS):
                self.wrong.append(f"{tag} {name}={value}")
            if name in ("class", "id") and ("alert" in (value or "") or "evil" in (value or "")):
                self.wrong.append(f"{tag} {name}={value}")

    @override
    def handle_data(self, data: str) -> None:
        if not data.translate(dict.fromkeys(map(ord, self.lines))).isprintable():
            self.wrong.append(f"text {[each for each in data if not each.isprintable() and each not in self.lines]}")


def hostile() -> dict[str, Any]:
    """An event in whose every field of text stands an attack."""
    attack = ATTACK
    time = "2026-11-21T10:03:04Z"
    event = {
        **dict.fromkeys("application tenant environment pipeline_version model question_id session_id".split(), attack),
        **dict.fromkeys("trace_id span_id query response error finish_reason".split(), attack),
        "event_id": ID,
        "labels": {attack[:100]: attack},
        "expected": [attack],
        "history": [{"role": attack, "text": attack}],
        "feedback": {"score": 1, "label": attack, "comment": attack},
        "contexts": [
            dict.fromkeys("text chunk_id document_id page retrieval_method".split(), attack) | {"rank": 1},
            {"text": f"{attack} 30 [1] euros.", "document_id": attack},
        ],
        "extractions": [{"field": attack, "value": attack, "evidence": attack, "chunk_number": 1}],
        "spans": [
            {"kind": "tool", "id": "1", "name": attack, "error": attack, "started_at": time, "ended_at": time},
            {"kind": "llm", "name": attack, "parent_id": "1"},
        ],
        "ended_at": time,
        "extra": {attack: attack},
    }
    event["response"] = f"{attack} 90 euros [1]. {attack}"
    assert Interaction.model_validate(event)
    return event


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShownPages]:
    folder = tmp_path_factory.mktemp("hostile")
    out = score(folder, [hostile()])
    evaluation = orjson.loads(out.read_bytes())
    evaluation["scores"] |= {ATTACK: 0.5, "judge_faithfulness": 0.1}
    evaluation["categories"] |= {"answer_class": ATTACK}
    evaluation["reasons"] |= {ATTACK[:50]: ATTACK}
    evaluation["scores"][ATTACK[:50]] = None
    evaluation["explanations"] = {"judge_faithfulness": ATTACK}
    evaluation["evidence"] = {"judge_faithfulness": [ATTACK]}
    evaluation["flags"] = [ATTACK]
    evaluation["decision"] = {
        "suites": [{"suite": ATTACK, "status": "judged", "probability": 1, "because": [ATTACK], "row": ATTACK}]
    }
    evaluation["judge"] = {
        "model": ATTACK,
        "prompt_version": ATTACK,
        "input_tokens": 1,
        "output_tokens": 1,
        "cost_usd": 0.1,
        "cached": False,
    }
    evaluation["stage"] = "judged"
    out.write_bytes(orjson.dumps(evaluation))
    labels = [
        Label(
            event_id=ID,
            question=ATTACK,
            value=ATTACK,
            rater=ATTACK,
            kind="expert",
            blind=True,
            comment=ATTACK,
            time=datetime(2026, 11, 22, tzinfo=UTC),
            dimensions={ATTACK: ATTACK},
            why=ATTACK,
        )
    ]
    with shown(folder, [out], labels, trace_url="https://t.example/{trace_id}") as found:
        yield found


@pytest.mark.slow
def test_no_text_of_an_event_becomes_a_part_of_a_page(pages: ShownPages) -> None:
    """No element, handler, address or control character of an event's is in any page, also not in a query's echo."""
    html = pages.page("/answers")
    address = html.partition('<a data-row href="')[2].partition('"')[0].replace("&amp;", "&")
    for path in (
        "/",
        "/answers",
        address,
        f"{address}?sort=unsupported_risk",
        "/answers?id=%3Cscript%3E",
        "/agreement",
    ):
        page = pages.page(path)
        strict = Strict()
        strict.feed(page)
        assert strict.wrong == [], path
        assert strict.scripts == 1, path
    assert "\\x00" in pages.page(address), "the escapes of control characters are shown"
    assert "49" not in pages.page(address).partition("alert(1)//")[2][:12]


def test_a_download_of_a_hostile_answer_is_json(pages: ShownPages) -> None:
    answer = pages.browser.get("/answers.jsonl")
    assert orjson.loads(answer.text)["event_id"] == ID
    assert answer.headers["content-type"].startswith("application/jsonl")
    assert answer.headers["x-content-type-options"] == "nosniff"
