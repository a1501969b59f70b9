"""`ragweir doctor` on the judge: whether it can be used, what it has cost, and how much waits for it.

The judge is simulated: what is proved is what doctor says of an endpoint, not what a model would say.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import ragweir
from confluent_kafka import Consumer, Producer, TopicPartition
from conftest import SharedBroker, produce
from hostile_endpoint import Request, hostile, http, said

from ragweir.schemas.codec.json import encode
from ragweir.schemas.judging import LedgerEntry, ledger_key
from ragweir.streams.analysis.checks import judge as checks
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed
from ragweir.streams.playground.simulated.server import simulated_judge
from ragweir.streams.services.judge.probe import SIMULATED
from ragweir.streams.settings import JudgeSettings, Settings

PRICES = {SIMULATED: {"input_usd": 0.15, "output_usd": 0.6}}
UNREACHABLE = "http://127.0.0.1:9/v1"


def findings(base_url: str | None, /, **judge: Any) -> CheckContext:
    return CheckContext(
        Settings(judge=JudgeSettings(**{"base_url": base_url, "model": SIMULATED, "prices": PRICES, **judge}))
    )


WELL = (
    ("structured outputs", {}, {}, "simulated-judge (simulated: no model is behind it), with structured outputs"),
    ("JSON mode", {"structured_outputs": False}, {}, "in JSON mode"),
    ("neither", {"structured_outputs": False, "json_mode": False}, {}, "in a form that the prompt alone asks for"),
    ("JSON mode asked for", {}, {"answers": "json_object"}, "in JSON mode"),
    (
        "another name",
        {},
        {"model": "x", "prices": {"x": PRICES[SIMULATED]}},
        "as simulated-judge (simulated: no model is behind it)",
    ),
    ("a key", {"key": "sk-right"}, {"api_key": "sk-right"}, "with structured outputs"),
)


@pytest.mark.parametrize(("options", "judge", "words"), [case[1:] for case in WELL], ids=[case[0] for case in WELL])
def test_an_endpoint_that_can_be_used(options: dict[str, Any], judge: dict[str, Any], words: str) -> None:
    """What it is asked in, that it is simulated, and what asking cost: less than a tenth of a cent, and not nothing."""
    with simulated_judge(**options) as simulated:
        told = checks.judge(findings(simulated.base_url, **judge))
        calls = simulated.calls()
    assert words in told
    charged = (calls["prompt_tokens"] * 0.15 + calls["completion_tokens"] * 0.6) / 1e6
    assert 0 < charged < 0.001
    assert f"asking cost ${charged:.4f}" in told
    assert sum(call["status"] == 200 for call in calls["calls"]) == 1


def test_vectors_are_asked_for_where_the_endpoint_is_to_give_them() -> None:
    with simulated_judge(models=(SIMULATED,)) as simulated:
        prices = {**PRICES, "vectors": PRICES[SIMULATED]}
        with pytest.raises(CheckFailed, match="does not know the model vectors"):
            checks.judge(findings(simulated.base_url, embedding_model="vectors", prices=prices))
        checks.judge(findings(simulated.base_url, embedding_model=SIMULATED))
        assert [call["path"] for call in simulated.calls()["calls"]] == [
            "/v1/chat/completions",
            "/v1/embeddings",
            "/v1/chat/completions",
            "/v1/embeddings",
        ]


def test_a_price_that_nobody_knows_is_said() -> None:
    with simulated_judge() as simulated:
        told = checks.judge(findings(simulated.base_url, prices={}, daily_budget_usd=None))
    assert told.endswith(f"asking cost $0.0000; the price of {SIMULATED} is not known")


RIGHT = "; are judge.base_url, judge.api_key and judge.model right?"
NO_USE = "its answer is of no use: the judge's answer was "
UNWELL = (
    ("a wrong key", {"key": "sk-right"}, {"api_key": "sk-wrong"}, {}, "the judge rejects the key (401)" + RIGHT),
    ("an unknown model", {"models": ("a",)}, {}, {}, f"the judge does not know the model {SIMULATED} (404)" + RIGHT),
    ("nobody there", {}, {"base_url": UNREACHABLE}, {}, "the judge's endpoint cannot be reached" + RIGHT),
    ("an error", {}, {}, {"500": 1}, "the judge's endpoint fails (500)" + RIGHT),
    ("too many calls", {}, {}, {"429": 1}, "the judge wants fewer calls (429)"),
    ("silence", {}, {"timeout_s": 0.5}, {"hang": 1}, "the judge did not answer in time" + RIGHT),
    ("prose", {}, {}, {"prose": 1}, NO_USE + "not JSON; does judge.model follow a schema?"),
    ("a cut answer", {}, {}, {"cut-answer": 1}, NO_USE + "cut; raise judge.max_output_tokens"),
    (
        "no structured outputs, and nothing else allowed",
        {"structured_outputs": False},
        {"answers": "json_schema"},
        {},
        "the judge does not support a setting of its answers" + RIGHT,
    ),
)


@pytest.mark.parametrize(
    ("options", "judge", "shares", "words"), [case[1:] for case in UNWELL], ids=[case[0] for case in UNWELL]
)
def test_an_endpoint_that_cannot_be_used(
    options: dict[str, Any], judge: dict[str, Any], shares: dict[str, float], words: str
) -> None:
    """Each in one line that says what to look at, and holds no secret."""
    with simulated_judge(**options) as simulated:
        simulated.set_faults(shares=shares)
        url = judge.get("base_url", simulated.base_url)
        with pytest.raises(CheckFailed) as wrong:
            checks.judge(findings(url, **judge))
    assert str(wrong.value) == f"{url}: {words}"
    assert "sk-" not in str(wrong.value)


@pytest.mark.heavy
def test_the_name_that_the_endpoint_gives_its_model_is_shown_as_it_is_and_obeyed_by_nothing() -> None:
    """Neither by the terminal nor as rich's markup; nothing else is looked at, as no broker is there."""
    names = ("relevance", "faithfulness", "hallucination", "contextual_relevance")
    fields = {f"{name}{kind}": value for name in names for kind, value in (("_reason", "so"), ("", 0.5))}

    def attack(request: Request) -> list[bytes]:
        model = "\x1b[2J\x1b]0;owned\x07[red]:smile:[/red][/]" + "m" * 1_000_000
        return [http(orjson.dumps(said(orjson.dumps(fields | {"check": request.check}).decode(), model=model)))]

    with hostile(attack) as endpoint:
        variables = {"BASE_URL": endpoint.base_url, "MODEL": SIMULATED, "PRICES": orjson.dumps(PRICES).decode()}
        judge = {f"RAGWEIR_JUDGE__{name}": value for name, value in variables.items()}
        shown = ragweir("--bootstrap-servers", "127.0.0.1:9", "doctor", **judge).stdout.decode()
    (line,) = [line for line in shown.splitlines() if line.startswith("ok    judge")]
    cut = "?[2J?]0;owned?[red]:smile:[/red][/]".ljust(100, "m")
    assert f"answers as {cut}, with structured outputs" in line
    assert "\x1b" not in line


def test_settings_that_cannot_be_used_are_told_without_a_call() -> None:
    with simulated_judge() as simulated:
        for judge, words in (
            ({"prices": {}}, f"the price of {SIMULATED} is not known"),
            ({"api_key_file": Path("nowhere")}, "judge.api_key_file cannot be read"),
        ):
            with pytest.raises(CheckFailed, match=words):
                checks.judge(findings(simulated.base_url, **judge))
        assert "from the cache alone" in checks.judge(findings(simulated.base_url, cached_only=True))
        assert simulated.calls()["count"] == 0


def test_the_report_tells_form_price_and_latency_of_one_call() -> None:
    prices = {SIMULATED: {**PRICES[SIMULATED], "cached_usd": 0.05}}
    with simulated_judge() as simulated:
        report = checks.judge_report(findings(simulated.base_url, prices=prices))
        (call,) = simulated.calls()["calls"]
    assert report["judge"] == f"{simulated.base_url} answers as {SIMULATED} (simulated: no model is behind it)"
    assert report["form"] == "with structured outputs, max_tokens, a temperature; found in 1 call"
    used = f"{call['prompt_tokens']:,} tokens in and {call['completion_tokens']:,} out"
    assert report["price"].startswith("$0.1500 for a million tokens in, $0.0500 where it was cached and $0.6000 out; ")
    assert report["price"].endswith(f"the last answer took {used}")
    assert report["latency"].endswith(" s for one answer; a call may take 30 s (judge.timeout_s)")


def test_the_report_names_the_settings_that_save_calls_at_each_start() -> None:
    with simulated_judge(structured_outputs=False, json_mode=False) as simulated:
        form = checks.judge_report(findings(simulated.base_url))["form"]
        saved = checks.judge_report(findings(simulated.base_url, answers="text"))["form"]
    said = "in a form that the prompt alone asks for, max_tokens, a temperature; found in "
    assert form == f'{said}3 calls, of which judge.answers = "text" saves some at each start'
    assert saved == f"{said}1 call"


def test_the_report_needs_an_endpoint_that_answers() -> None:
    for judge in ({"cached_only": True}, {"timeout_s": 2}):
        with pytest.raises(CheckFailed):
            checks.judge_report(findings(UNREACHABLE, **judge))
    with pytest.raises(CheckFailed, match="there is no endpoint to ask"):
        checks.judge_report(findings(None))


def test_without_a_judge_all_is_well() -> None:
    none = findings(None)
    assert "none is configured" in checks.judge(none)
    assert checks.requests(none) == checks.spending(none) == "none, since there is no judge"


@pytest.mark.heavy
def test_doctor_tells_the_bill_what_waits_and_which_floor_the_budget_affords(kafka: SharedBroker, prefix: str) -> None:
    """Of each account the newest record counts, and what waits is counted by records: marks of transactions do not."""
    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix)
    assert ragweir(*shared, "topics", "create", RAGWEIR_TOPICS__PARTITIONS="2").returncode == 0
    now = datetime.now(UTC)

    def booked(days: int, partition: int, **amounts: int) -> None:
        day = (now - timedelta(days=days)).date().isoformat()
        entry = LedgerEntry(day=day, application="", tenant="", partition=partition, **amounts)
        produce(kafka.bootstrap, f"{prefix}judge.ledger", [encode(entry)], key=ledger_key(entry))

    booked(0, 0, spent=100, reserved=999_999)
    booked(0, 0, spent=1_000_000, reserved=250_000, events=10, wanted=15, floor=10)
    booked(0, 1, spent=500_000, events=5, wanted=10)
    booked(1, 0, spent=2_000_000, events=1_000, wanted=1_600, floor=1_000)
    booked(2, 0, spent=9_000_000, events=9, wanted=9)

    places = {"judge.requests": 1, "judge.retry": 0, "judge.deferred": 3}
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{prefix}test", "log_level": 0})
    producer.init_transactions()
    for name, number in places.items():
        for _ in range(number):  # Each leaves a mark behind its one record.
            producer.begin_transaction()
            producer.produce(prefix + name, b"{}", partition=0)
            producer.commit_transaction()
    starts = [TopicPartition(prefix + name, partition, 0) for name in places for partition in range(2)]
    member = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"{prefix}judge", "log_level": 0})
    member.commit(offsets=starts, asynchronous=False)
    member.close()

    with simulated_judge() as simulated:
        judge = {"base_url": simulated.base_url, "model": SIMULATED, "prices": orjson.dumps(PRICES).decode()}
        variables = {f"RAGWEIR_JUDGE__{name.upper()}": value for name, value in judge.items()}
        variables |= {"RAGWEIR_JUDGE__DAILY_BUDGET_USD": "2", "RAGWEIR_TOPICS__PARTITIONS": "2"}
        done = ragweir(*shared, "doctor", **variables)
        assert done.returncode == 0, done.stdout.decode()
        wrong = ragweir(*shared, "doctor", **variables | {"RAGWEIR_JUDGE__BASE_URL": UNREACHABLE})
    lines = {line.split(":")[0]: line for line in done.stdout.decode().splitlines() if line.startswith("ok ")}
    assert lines["ok    requests"] == (
        f"ok    requests: group {prefix}judge has left to judge "
        f"1 in {prefix}judge.requests, 0 in {prefix}judge.retry, 3 in {prefix}judge.deferred"
    )
    # Yesterday the budget judged 1,000 events. Rules selected 600: that left 400 of the 1,000 by floors. Today half.
    assert lines["ok    spending"] == (
        "ok    spending: today $1.5000 of $2.0000 spent, $0.2500 reserved, 15 events judged, 25 asked for; "
        "yesterday $2.0000 of $2.0000 spent, 1,000 events judged, 1,600 asked for; "
        "the budget affords floors of rubric 0.008, context_recall 0.008 in addition to what rules select"
    )
    assert wrong.returncode == 1
    (line,) = [line for line in wrong.stdout.decode().splitlines() if line.startswith("wrong")]
    assert line == f"wrong judge: {UNREACHABLE}: the judge's endpoint cannot be reached{RIGHT}"
