"""What leaves for the judge is redacted, and only what is meant to be."""

import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from commands import program
from faults import gone
from hypothesis import given
from hypothesis import strategies as st
from services import eventually

from ragweir.errors import ConfigurationError
from ragweir.metrics.judged.suite import Case
from ragweir.metrics.metric import Null
from ragweir.streams.services.judge.redaction import Redactor
from ragweir.streams.settings import JudgeSettings

ON = Redactor(JudgeSettings(redaction="on"))
CASE = Case("Who is ada@example.org?", "A poet's daughter.", ("She wrote ada@example.org on it.",), ("Ada",))
# In pieces, so that nobody who searches this file for leaked keys finds one.
JWT = f"eyJ{'hbGciOiJIUzI1NiJ9'}.eyJ{'zdWIiOiIxMjM0In0'}.{'c2lnbmF0dXJl'}"

FOUND = [
    ("Write to ada.lovelace+notes@mail.example.co.uk.", "Write to [email]."),
    ("<jörg@exämple.de>, or a@b.c", "<[email]>, or [email]"),
    ("call +49 30 901820 now", "call [phone] now"),
    ("+1 (415) 555-2671, ext. 3", "[phone], ext. 3"),
    ("0049 (0)30 901820", "[phone]"),
    ("(415) 555-2671 or 415-555-2671 or 415.555.2671.", "[phone] or [phone] or [phone]."),
    ("020 7946 0958, 01 23 45 67 89, 07700900123", "[phone], [phone], [phone]"),
    ("030/1234567 and (030) 901820", "[phone] and [phone]"),
    ("paid with 4111 1111 1111 1111 in 2024", "paid with [card] in 2024"),
    ("on 2024 4111 1111 1111 1111", "on 2024 [card]"),
    ("4111111111111111, 5555-5555-5555-4444", "[card], [card]"),
    ("amex 3782 822463 10005!", "amex [card]!"),
    ("to DE89 3704 0044 0532 0130 00 please pay", "to [iban] please pay"),
    ("GB29NWBK60161331926819.", "[iban]."),
    ("TO DE89370400440532013000 PLEASE PAY", "TO [iban] PLEASE PAY"),
    (f"key sk-{'a1B2' * 6} and AKIA{'ABCD' * 4}", "key [key] and [key]"),
    (f"Authorization: Bearer {'x1' * 16}==", "Authorization: [key]"),
    (f"token={JWT};", "token=[key];"),
    (f"ghp_{'a1' * 18} xoxb-{'12' * 10}-abc", "[key] [key]"),
    (f"-----BEGIN RSA PRIVATE KEY-----\n{'MIIB' * 9}\n-----END RSA PRIVATE KEY-----\nend", "[key]\nend"),
]
DISGUISED = [
    ("call +49\u00a030\u00a0901820 now", "call [phone] now"),
    ("call +49\u200930\u202f901820\u00a0now", "call [phone]\u00a0now"),
    ("(415)\u00a0555\u20132671 or 415\u2010555\u20112671", "[phone] or [phone]"),
    ("020\u20097946\u20090958 – «Émile»", "[phone] – «Émile»"),
    ("＋４９　３０　９０１８２０、または", "[phone]、または"),
    ("٠٣٠ ٩٠١ ٨٢٠", "[phone]"),
    ("paid with 4111\u00a01111\u00a01111\u00a01111 in\u00a02024", "paid with [card] in\u00a02024"),
    ("4111\u20131111\u20131111\u20131111, 5555\u22125555\u22125555\u22124444", "[card], [card]"),
    ("４１１１１１１１１１１１１１１１！", "[card]！"),
    ("4111\u200b1111\u200b1111\u200b1111 \u200bend", "[card] \u200bend"),
    ("41\u00ad11\u2060111111\ufeff111111", "[card]"),
    ("4\ufe0f\u20e3111111111111111", "[card]"),
    ("\u202e4111111111111111\u202c", "\u202e[card]\u202c"),
    ("4111111111111111\u200b2024 4111111111111111\u20132024", "[card]\u200b2024 [card]\u20132024"),
    ("to DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000 please", "to [iban] please"),
    ("ＤＥ８９３７０４００４４０５３２０１３０００．", "[iban]．"),
    ("DE89\u200b3704\u200b0044\u200b0532\u200b0130\u200b00", "[iban]"),
    ("ada\u200b@example\u200b.org, ada＠example．org", "[email], [email]"),
    (f"key sk\u2011{'a1B2' * 6}, s\u200bk-{'a1B2' * 6}", "key [key], [key]"),
    (f"Authorization: Bearer\u00a0{'x1' * 16}==", "Authorization: [key]"),
]
"""The same with other spaces, dashes and digits, and with characters that nobody sees."""
LEFT = [
    "On 22.\u00a011.\u00a02024, pp. 100–200, in 2019–2024; it cost 1\u202f234\u202f567,89\u00a0€ – or １２３４",
    "Order 4111\u00a01111\u00a01111\u00a01112 fails Luhn\u2019s test; die Bau\u00adge\u00adneh\u00admi\u00adgung",
    "\u202eنعم\u202c ٢٠٢٤\u200c — ok 👨\u200d👩\u200d👧 1\ufe0f\u20e3",
    "On 2024-11-22, 22.11.2024 or 01.02.2024 at 10:30, and 2024-11-22T10:30:00Z",
    "It cost 1,234,567.89 or 1.234.567,89 or 0.1234567891, in all 1 000 000",
    "Order 4111111111111112 and 4111 1111 1111 1112 fail Luhn's test",
    "DE89 3704 1144 1532 1130 11 fails its checksum",
    "version 10.2.301, 192.168.100.200, 127.0.0.1:8080, ISBN 978-3-16-148410-0",
    "0f8fad5b-d9cb-469f-a165-70867728950e",
    "a @ b, @ada, user@host without a dot, x@y",
    "a task-based approach; risk-adjusted-return-on-capital; the bearer of good news",
    "2019 2020 2021 2022 2023: 10 20 30 40 50",
    "Room 012, floor 3; 100-200 pages; 1:100 000",
]

ADVERSARIAL = [
    "a",
    "@",
    "a@",
    "a@b.",
    "a.b@",
    "1 ",
    "4",
    "4111 ",
    "4111 1111 1111 1112 ",
    "AB12",
    "AB12 ",
    "AB12 1 ",
    "eyJ",
    "eyJ.",
    "eyJaaaaa.",
    "sk-",
    "sk-aaaaaaaaaaaaaaa ",
    "+1",
    "+1 ",
    "+1 (((2",
    " 001 2 3",
    "(012)",
    "0123-4",
    "-----BEGIN PRIVATE KEY-----",
    "bearer ",
]


def redacted_text(text: str, redactor: Redactor = ON) -> str:
    case = redactor.redact(Case(text, text))
    assert isinstance(case, Case)
    return case.response


@pytest.mark.parametrize(("text", "redacted"), [*FOUND, *DISGUISED])
def test_what_identifies_or_opens_doors_is_replaced(text: str, redacted: str) -> None:
    assert redacted_text(text) == redacted


@pytest.mark.parametrize("text", LEFT)
def test_other_numbers_and_words_stay(text: str) -> None:
    assert redacted_text(text) == text


def test_own_patterns_find_what_is_disguised() -> None:
    own = Redactor(JudgeSettings(redaction="on", redact_patterns={"case": r"\bC-\d+"}))
    assert redacted_text("«C\u20111\u200b2»\u00a0by \u200bAda", own) == "«[case]»\u00a0by \u200bAda"


@given(st.text(max_size=300))
def test_what_was_redacted_is_not_redacted_again(text: str) -> None:
    once = redacted_text(text)
    assert redacted_text(once) == once


@pytest.mark.heavy
@pytest.mark.parametrize("unit", ADVERSARIAL)
def test_a_long_text_is_read_in_linear_time(unit: str) -> None:
    """There is no stopwatch: a search of 10^11 steps does not come to its end."""
    redacted_text((unit * (300_000 // len(unit) + 1))[:300_000])


def test_off_leaves_and_on_changes_every_text_and_refuse_lets_nothing_go() -> None:
    redacted = replace(CASE, query="Who is [email]?", contexts=("She wrote [email] on it.",))
    assert Redactor(JudgeSettings()).redact(CASE) is CASE
    assert ON.redact(CASE) == redacted
    refusing = Redactor(JudgeSettings(redaction="refuse"))
    assert refusing.redact(CASE) == Null("its texts hold what must not leave (judge.redaction)")
    assert refusing.redact(redacted) == redacted


def test_own_patterns_are_named_by_the_settings() -> None:
    own = Redactor(JudgeSettings(redaction="on", redact_patterns={"case": r"\bC-\d+"}))
    assert redacted_text("C-12 by ada@example.org", own) == "[case] by [email]"


@pytest.mark.parametrize(("form", "told"), [("(", "no regular expression"), ("x*", "must not match an empty text")])
def test_a_pattern_that_cannot_be_used_is_told_at_the_start(form: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Redactor(JudgeSettings(redact_patterns={"case": form}))


HOOKS = """
def names(text): return text.replace("Ada", "[name]")
def broken(text): raise ValueError(text)
def silent(text): return None
def endless(text):
    while text == "Babbage": pass
    return text
def deadly(text): return text if text == "Grace" else __import__("os")._exit(3)
"""


@pytest.fixture
def hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "redaction_hooks.py").write_text(HOOKS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("hooks")
def test_the_hook_gets_what_the_patterns_left() -> None:
    hooked = Redactor(JudgeSettings(redaction="on", redact_hook="redaction_hooks:names")).redact(CASE)
    assert isinstance(hooked, Case)
    assert (hooked.query, hooked.expected) == ("Who is [email]?", ("[name]",))


@pytest.mark.usefixtures("hooks")
@pytest.mark.parametrize(("hook", "error"), [("broken", "ValueError"), ("silent", "TypeError")])
def test_a_hook_that_fails_lets_nothing_go_and_quotes_nothing(
    hook: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    redactor = Redactor(JudgeSettings(redaction="on", redact_hook=f"redaction_hooks:{hook}"))
    assert redactor.redact(CASE) == Null(f"redaction raised {error}")
    told = capsys.readouterr()
    assert "redaction failed" in told.out + told.err
    assert "example.org" not in told.out + told.err


@pytest.mark.heavy
@pytest.mark.usefixtures("hooks")
def test_a_hook_that_ends_its_process_lets_nothing_go_and_the_next_event_finds_another() -> None:
    redactor = Redactor(JudgeSettings(redaction="on", redact_hook="redaction_hooks:deadly"))
    assert redactor.redact(CASE) == Null("the process that redacts ended")
    assert redacted_text("Grace", redactor) == "Grace"


CATASTROPHE = Case("a" * 60 + "!", "Babbage")
"""What (a+)+$ tries in 2^60 ways."""


@pytest.mark.heavy
@pytest.mark.usefixtures("hooks")
@pytest.mark.parametrize(
    "settings", [{"redact_patterns": {"bad": "(a+)+$"}}, {"redact_hook": "redaction_hooks:endless"}], ids=str
)
def test_what_takes_too_long_is_ended_and_the_next_event_is_redacted(settings: dict[str, Any]) -> None:
    redactor = Redactor(JudgeSettings(redaction="on", redact_timeout_s=0.5, **settings))
    for _ in range(2):
        assert isinstance(redactor.redact(CASE), Case)
        assert redactor._own
        assert redactor._own._child
        process, _ = redactor._own._child
        assert redactor.redact(CATASTROPHE) == Null("redaction took longer than judge.redact_timeout_s")
        assert process.returncode == -signal.SIGKILL, "nothing goes on searching"


ORPHAN = """
import os, threading, time
from ragweir.metrics.judged.suite import Case
from ragweir.metrics.metric import Null
from ragweir.streams.services.judge import isolated_redaction
from ragweir.streams.services.judge.redaction import Redactor
from ragweir.streams.settings import JudgeSettings

isolated_redaction._SLACK_S = 1.0
if __name__ == "__main__":
    redactor = Redactor(JudgeSettings(redaction="on", redact_timeout_s={limit}, redact_patterns={{"bad": "(a+)+$"}}))
    redactor.redact(Case("", "fine"))
    process, _ = redactor._own._child
    print(process.pid, flush=True)
    threading.Thread(target=redactor.redact, args=(Case("", "{text}"),), daemon=True).start()
    time.sleep(0.5)
    os.kill(os.getpid(), 9)
"""


@pytest.mark.heavy
@pytest.mark.parametrize("text", ["fine", "a" * 60 + "!"], ids=["idle", "searching"])
def test_the_process_does_not_outlive_a_worker_that_is_killed(text: str, tmp_path: Path) -> None:
    (tmp_path / "orphan.py").write_text(ORPHAN.format(limit=1.0, text=text))
    told = program(sys.executable, "orphan.py", folder=tmp_path)
    assert told.returncode == -signal.SIGKILL, told.stderr
    eventually(lambda: gone(int(told.stdout)), "it is gone")


def test_a_hook_that_does_not_exist_is_told_at_the_start() -> None:
    with pytest.raises(ConfigurationError, match="cannot be imported"):
        Redactor(JudgeSettings(redact_hook="nowhere:nothing"))
