"""The judge service on a real broker, against the simulated judge: results exactly once through outages and kills.

The judge is simulated: what is proved is about requests, money and time, not about what a model would say.
"""

import json
import os
import random
import signal
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND, program
from confluent_kafka.admin import AdminClient, NewPartitions
from conftest import SharedBroker, committed, create_topic, produce, read_to_end, trim, values
from faults import BEHIND, forget, gone, set_offset
from services import Service, Services, eventually, quick

from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Decision, Evaluation, SuiteDecision
from ragweir.schemas.judging import ANCHORS, Finished, JudgeRequest, LedgerEntry, ledger_key
from ragweir.schemas.topics import TOPICS as TABLE
from ragweir.streams.playground.simulated.server import SimulatedJudge, simulated_judge

PARTITIONS = 4
MODEL = "simulated-judge"
PRICES = {MODEL: {"input_usd": 1.0, "output_usd": 4.0}}
TOPICS = (
    *("judge.requests", "judge.retry", "judge.deferred", "judge.ledger", "judge.anchors"),
    *("evaluations", "dead-letter"),
)

Start = Callable[..., Service]


class Requests:
    """Requests to judge under a prefix of their own, and what became of them."""

    def __init__(
        self,
        bootstrap: str,
        prefix: str,
        limits: Mapping[str, int] | None = None,
        ledger: Mapping[str, str] | None = None,
    ) -> None:
        """Make the topics; `limits` has the `max.message.bytes` of some, `ledger` other settings of the ledger."""
        self.bootstrap, self.prefix, self.sent, self.partitions = bootstrap, prefix, 0, PARTITIONS
        for name in TOPICS:
            most = (limits or {}).get(name)
            config = {**dict(TABLE[name].config), **({"max.message.bytes": str(most)} if most else {})}
            config |= (ledger or {}) if name == "judge.ledger" else {}
            create_topic(bootstrap, prefix + name, PARTITIONS, config)
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def send(self, number: int, suite: str = "rubric", **fields: Any) -> None:
        """Ask for so many more judgements, spread over the partitions; `fields` are the evaluations'."""
        lanes: dict[int, list[bytes]] = {partition: [] for partition in range(self.partitions)}
        for each in range(self.sent, self.sent + number):
            decided = SuiteDecision(suite=suite, status="selected", probability=1.0, because=("risk",))
            evaluation = Evaluation(
                event_id=f"event-{each}",
                event_time=datetime.now(UTC),
                decision=Decision(suites=(decided,)),
                catalogue_version="1",
                **fields,
            )
            asked = JudgeRequest(
                evaluation=evaluation,
                query=f"How far is town {each} from the sea?",
                response=f"Town {each} is {each % 97} miles from the sea.",
                contexts=(f"Town {each} lies {each % 97} miles from the sea.", "Nothing of use."),
            )
            lanes[each % self.partitions].append(encode(asked))
        for partition, lane in lanes.items():
            produce(self.bootstrap, f"{self.prefix}judge.requests", lane, partition=partition)
        self.sent += number

    def grow(self, topics: Iterable[str], partitions: int) -> None:
        """Give topics more partitions."""
        wanted = [NewPartitions(self.prefix + name, partitions) for name in topics]
        for future in self.admin.create_partitions(wanted).values():
            future.result(30)
        self.partitions = partitions

    def read(self, topic: str) -> list[dict[str, Any]]:
        """The committed records of one of our topics."""
        return values(self.bootstrap, self.prefix + topic)

    def empty(self, topic: str) -> None:
        """Delete all records of one of our topics."""
        trim(self.bootstrap, self.prefix + topic, range(PARTITIONS))

    def settled(self) -> bool:
        """Whether every request, and every one that waits, is committed."""
        found, requests = committed(self.admin, f"{self.prefix}judge"), f"{self.prefix}judge.requests"
        return sum(at.offset for (topic, _), at in found.items() if topic == requests) == self.sent

    def must_be_judged_exactly_once(self, status: str = "judged") -> list[dict[str, Any]]:
        """Wait until all are settled; every event has one judged evaluation with this status."""
        eventually(lambda: len(self.read("evaluations")) >= self.sent, "all are judged")
        found = self.read("evaluations")
        assert Counter(each["event_id"] for each in found) == Counter(f"event-{n}" for n in range(self.sent))
        assert {each["decision"]["suites"][0]["status"] for each in found} == {status}
        assert {each["stage"] for each in found} == {"judged"}
        return found

    def spent(self) -> tuple[int, int]:
        """By the ledger: what is spent, and what is reserved, in millionths of a dollar."""
        newest = {(each["day"], each["application"], each["partition"]): each for each in self.read("judge.ledger")}
        return sum(each["spent"] for each in newest.values()), sum(each["reserved"] for each in newest.values())


def environment(requests: Requests, judge: SimulatedJudge | str, **settings: Any) -> dict[str, str]:
    own = {
        "judge__base_url": judge if isinstance(judge, str) else judge.base_url,
        "judge__api_key": "sk-test",
        "judge__model": MODEL,
        "judge__prices": PRICES,
        "judge__daily_budget_usd": 50,
        "judge__breaker_wait_s": 0.2,
    }
    return quick(requests.bootstrap, requests.prefix, **{**own, **settings})


@pytest.fixture
def requests(kafka: SharedBroker, prefix: str) -> Requests:
    return Requests(kafka.bootstrap, prefix)


@pytest.fixture
def start(services: Services) -> Start:
    """Start judge."""

    def start(requests: Requests, judge: SimulatedJudge | str, *arguments: str, **settings: Any) -> Service:
        return services.start("judge", *arguments, variables=environment(requests, judge, **settings))

    return start


def cost(calls: Mapping[str, Any]) -> float:
    """What the simulated judge charged, in millionths of a dollar."""
    price = PRICES[MODEL]
    return calls["prompt_tokens"] * price["input_usd"] + calls["completion_tokens"] * price["output_usd"]


def test_requests_become_judged_evaluations_and_the_ledger_knows_what_they_cost(
    requests: Requests, start: Start
) -> None:
    with simulated_judge() as judge:
        requests.send(60)
        service = start(requests, judge)
        found = requests.must_be_judged_exactly_once()
        eventually(requests.settled, "all offsets are committed")
        calls = judge.calls()
        assert calls["count"] == 60, "one call an event, none twice"
        spent, reserved = requests.spent()
        assert reserved == 0
        # Each call is rounded up to a millionth.
        assert cost(calls) <= spent <= cost(calls) + 60
        assert sum(each["judge"]["cost_usd"] for each in found) * 1e6 == pytest.approx(spent)
        assert {each["judge"]["model"] for each in found} == {MODEL}, "what is simulated says so"
        assert all(each["scores"]["judge_faithfulness"] is not None for each in found)
        eventually(
            lambda: service.sample('ragweir_judge_requests_total{outcome="judged"}') == 60, "telemetry counts them"
        )
        assert service.stop() == 0


@pytest.mark.heavy
def test_a_run_of_anchors_is_judged_once_through_a_kill_and_becomes_no_evaluation(
    requests: Requests, start: Start, tmp_path: Path
) -> None:
    """SIGKILL while the run is judged: it is not requested again, each anchor has one result, its cost is booked."""
    anchors = tmp_path / "anchors.jsonl"
    texts = {"response": "It is far.", "contexts": [{"text": "It is near."}]}
    rows = [{"event_id": f"a{n}", "query": f"How far is town {n}?", "bad": n < 100, **texts} for n in range(150)]
    anchors.write_text("".join(json.dumps(each) + "\n" for each in rows))
    with simulated_judge() as judge:
        judge.set_faults(latency_ms=30)
        requests.send(20)
        service = start(requests, judge, judge__anchor_file=str(anchors), judge__concurrency=8)
        eventually(lambda: len(requests.read("judge.anchors")) >= 20, "the run goes on")
        os.kill(service.pid(0), signal.SIGKILL)
        eventually(lambda: len(requests.read("judge.anchors")) >= 150, "the run ends")
        requests.must_be_judged_exactly_once()
        asked = len(requests.read("judge.retry"))
        found = requests.read("judge.anchors")
        runs = Counter((each["day"], each["run"], each["anchor"]) for each in found)
        assert set(runs.values()) == {1}
        assert asked % 150 == 0, "after noon, and over midnight, a second run is due"
        assert {each["bad"] for each in found if each["judged_bad"] is not None} == {True, False}
        assert all(each["baseline"] and each["model"] == MODEL for each in found)
        eventually(lambda: requests.spent()[1] == 0, "nothing is reserved")
        newest = {(e["day"], e["application"], e["partition"]): e for e in requests.read("judge.ledger")}
        booked = sum(each["spent"] for (_, name, _), each in newest.items() if name == ANCHORS)
        assert booked >= sum(each["cost_usd"] for each in found) * 1e6 - 1
        assert service.stop() == 0


@pytest.mark.heavy
def test_a_result_that_kafka_rejects_becomes_a_dead_letter_and_all_others_are_judged(
    kafka: SharedBroker, prefix: str, start: Start
) -> None:
    """Of `evaluations` with small records, one judged evaluation is too large: it is paid for, and settled once."""
    requests = Requests(kafka.bootstrap, prefix, {"evaluations": 5_000})
    with simulated_judge() as judge:
        requests.send(30)
        requests.send(1, reasons={"exact_match": "".join(random.Random(1).choices("abcdefghijklmnop", k=20_000))})
        requests.send(30)
        service = start(requests, judge)
        eventually(requests.settled, "all offsets are committed")
        judged = Counter(each["event_id"] for each in requests.read("evaluations"))
        assert judged == Counter(f"event-{n}" for n in range(61) if n != 30)
        (letter,) = read_to_end(kafka.bootstrap, f"{prefix}dead-letter")
        headers = {name: value.decode() for name, value in letter.headers() or []}
        assert headers["ragweir-error-class"] == "refused"
        assert json.loads(letter.value() or b"")["evaluation"]["event_id"] == "event-30"
        assert judge.calls()["count"] == 61, "nothing is called again for a transaction that is aborted"
        spent, reserved = requests.spent()
        assert reserved == 0
        assert cost(judge.calls()) <= spent <= cost(judge.calls()) + 61
        assert service.sample('ragweir_dead_letters_total{error_class="refused"}') == 1
        aborted = service.sample('ragweir_transactions_total{outcome="aborted"}')
        time.sleep(1)
        assert service.sample('ragweir_transactions_total{outcome="aborted"}') == aborted, "nothing loops"
        assert service.stop() == 0


def test_kills_lose_nothing_and_double_no_result_and_lost_calls_count_as_spent(
    kafka: SharedBroker, prefix: str, start: Start
) -> None:
    """SIGKILL of either of two workers while calls are under way; repeated calls are counted and paid for."""
    requests, chance = Requests(kafka.bootstrap, prefix), random.Random(5)
    with simulated_judge() as judge:
        judge.set_faults(latency_ms=150, latency_sigma=0.5)
        requests.send(240)
        service = start(requests, judge, "--workers", "2", judge__concurrency=8)
        for kill in range(4):
            done = len(requests.read("evaluations"))
            eventually(lambda done=done: len(requests.read("evaluations")) > done, "work goes on")
            slot = chance.randrange(2)
            pid = eventually(lambda slot=slot: not gone(service.pid(slot)) and service.pid(slot), f"slot {slot} lives")
            time.sleep(chance.uniform(0, 0.3))
            os.kill(pid, signal.SIGKILL)
            if kill == 1:
                requests.send(60)
        requests.must_be_judged_exactly_once()
        calls = judge.calls()
        spent, _ = requests.spent()
        assert calls["count"] >= 300
        assert cost(calls) <= spent, "every call is in the ledger, those too whose answers nobody heard"
        print(f"{calls['count'] - 300} calls repeated over 4 kills; charged {cost(calls):.0f}, booked {spent}")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("how", "ledger"),
    [
        ("older", "kept"),
        ("none", "emptied"),
        pytest.param("older", "emptied", marks=pytest.mark.long),
        pytest.param("none", "kept", marks=pytest.mark.long),
    ],
)
def test_an_offset_that_was_forgotten_judges_nothing_twice(
    kafka: SharedBroker, prefix: str, start: Start, how: str, ledger: str
) -> None:
    """Where Kafka answers an older one, or none, the ledger tells up to where requests are finished.

    Where the end of the ledger does not tell, as of a partition that has been idle for long, the progress group does.
    """
    requests, group = Requests(kafka.bootstrap, prefix), f"{prefix}judge"
    with simulated_judge() as judge:
        requests.send(80)
        service = start(requests, judge)
        requests.must_be_judged_exactly_once()
        eventually(requests.settled, "all is committed")
        assert service.stop() == 0
        assert not service.logged(BEHIND)
        if how == "older":
            for partition in range(PARTITIONS):
                set_offset(kafka.bootstrap, group, f"{prefix}judge.requests", partition, 3 * partition)
        else:
            forget(requests.admin, group)
        if ledger == "kept":
            forget(requests.admin, f"{group}.progress")
        else:
            requests.empty("judge.ledger")
        requests.send(20)
        again = start(requests, judge)
        eventually(requests.settled, "all is committed")
        requests.must_be_judged_exactly_once()
        assert judge.calls()["count"] == 100
        told = again.logged(BEHIND, level="error")
        assert [(line["partition"], line["goes_on_at"]) for line in told] == [(each, 20) for each in range(PARTITIONS)]


@pytest.mark.heavy
def test_a_ledger_that_tells_of_a_topic_that_was_deleted_proves_nothing(
    kafka: SharedBroker, prefix: str, start: Start
) -> None:
    """Even if the same event stands at the same offset of the topic that was made again."""
    requests, topic = Requests(kafka.bootstrap, prefix), f"{prefix}judge.requests"
    finished = Finished(topic=topic, partition=0, offset=5, event_id=f"event-{5 * PARTITIONS}", topic_id="deleted")
    entry = LedgerEntry(day="2026-01-02", application="", tenant="", partition=0, finished=(finished,))
    with simulated_judge() as judge:
        requests.send(10 * PARTITIONS)
        produce(kafka.bootstrap, f"{prefix}judge.ledger", [encode(entry)], key=ledger_key(entry), partition=0)
        service = start(requests, judge)
        requests.must_be_judged_exactly_once()
        assert not service.logged(BEHIND)
        eventually(requests.settled, "all is committed")
        told = [each["topic_id"] for entry in requests.read("judge.ledger") for each in entry["finished"]]
    assert len(set(told)) == 2, "the id that was made up, and the topic's own"


@pytest.mark.heavy
@pytest.mark.parametrize("fault", ["503", "cut-connection"])
def test_an_outage_costs_no_request_and_no_rebalance(requests: Requests, start: Start, fault: str) -> None:
    """What breaks off in the middle may have cost all that was reserved: it is tried again with a new reservation."""
    with simulated_judge() as judge:
        requests.send(40)
        service = start(requests, judge, judge__retry_delay_s=1)
        requests.must_be_judged_exactly_once()
        judge.set_faults(shares={fault: "all"})
        requests.send(80)
        eventually(lambda: service.sample("ragweir_judge_breaker_opened_total") > 0, "the breaker opens")
        eventually(lambda: service.logged("circuit breaker of the judge opened"), "the log says so")
        held = service.sample("ragweir_assigned_partitions")
        time.sleep(3)
        assert len(requests.read("evaluations")) < 120
        judge.set_faults(shares={})
        requests.must_be_judged_exactly_once()
        eventually(lambda: service.sample("ragweir_judge_breaker") == 0, "the breaker closes")
        waited = len(requests.read("judge.retry"))
        assert waited == 0 if fault == "503" else waited < 40, "the backlog is not poured into retries"
        assert not requests.read("dead-letter")
        assert service.sample("ragweir_assigned_partitions") == held
        assert len(service.logged("partitions assigned")) == 1, "no rebalance"


@pytest.mark.heavy
def test_a_storm_of_429_is_waited_out_as_the_endpoint_says(requests: Requests, start: Start) -> None:
    with simulated_judge() as judge:
        judge.set_faults(shares={"429": "all"}, retry_after_s=1, requests=18)
        requests.send(80)
        service = start(requests, judge)
        requests.must_be_judged_exactly_once()
        refused = [call for call in judge.calls()["calls"] if call["status"] == 429]
        assert len(refused) == 18
        late = [call["at"] for call in refused[16:]]
        assert late[0] - refused[0]["at"] >= 1, "after the calls under way there is one a second, to try"
        assert late[1] - late[0] >= 1
        assert service.sample('ragweir_judge_calls_total{outcome="rate_limited"}') == len(refused)
        assert not requests.read("judge.retry")


@pytest.mark.heavy
def test_what_fails_while_the_judge_is_well_waits_in_the_retry_topic_and_then_goes_on(
    requests: Requests, start: Start
) -> None:
    """The pausing and going back of partitions, on a real broker: nothing of the retry topic is passed over."""
    with simulated_judge() as judge:
        judge.set_faults(shares={"500": 0.6}, seed=3)
        requests.send(40)
        start(requests, judge, judge__attempts=1, judge__retry_delay_s=2, judge__breaker_failures=1_000)
        eventually(lambda: len(requests.read("judge.retry")) >= 5, "some wait")
        requests.send(40)
        time.sleep(1)
        judge.set_faults(shares={})
        requests.must_be_judged_exactly_once()
        for waits in requests.read("judge.retry"):
            assert waits["why"]
            assert waits["attempts"] >= 1


@pytest.mark.heavy
def test_a_flood_of_one_tenant_is_moved_and_the_next_tenants_requests_are_judged_meanwhile(
    requests: Requests, start: Start
) -> None:
    """On a real broker: what is moved is read again, in a process that was killed meanwhile too, and judged once."""
    with simulated_judge() as judge:
        judge.set_faults(latency_ms=100)
        requests.send(600, tenant="loud")
        quiet = {f"event-{each}" for each in range(600, 604)}
        requests.send(4, tenant="quiet")
        service = start(requests, judge, judge__concurrency=4)
        eventually(lambda: len(requests.read("evaluations")) >= 150, "some are judged")
        early = [each["event_id"] for each in requests.read("evaluations")]
        assert quiet <= set(early), "those asked for last are among the first quarter"
        service.send(signal.SIGKILL)
        service.ended()
        start(requests, judge, judge__concurrency=4)
        judge.set_faults()
        requests.must_be_judged_exactly_once()
        eventually(requests.settled, "all offsets are committed")
        moved = requests.read("judge.retry")
        print(f"{len(moved)} moved; quiet ones were number {sorted(early.index(each) + 1 for each in quiet)} of 604")
        assert all(each["attempts"] == 0 for each in moved)
        assert len(moved) > 100


@pytest.mark.heavy
def test_over_budget_events_are_deferred_and_the_bill_stays_within_the_cap(requests: Requests, start: Start) -> None:
    cap = 0.2
    with simulated_judge() as judge:
        requests.send(200)
        service = start(requests, judge, judge__daily_budget_usd=cap)
        eventually(lambda: len(requests.read("evaluations")) + len(requests.read("judge.deferred")) == 200, "settled")
        judged, deferred = len(requests.read("evaluations")), requests.read("judge.deferred")
        assert judged > 0
        assert len(deferred) > 0
        assert cost(judge.calls()) <= cap * 1e6
        assert {each["evaluation"]["decision"]["suites"][0]["status"] for each in deferred} == {"deferred"}
        assert service.sample("ragweir_judge_budget_left_dollars") < cap / 2
        assert service.stop() == 0
        # Another start reads what is deferred, sees that it must wait, and calls nobody for it.
        calls = judge.calls()["count"]
        again = start(requests, judge, judge__daily_budget_usd=cap)
        eventually(lambda: again.logged("partitions assigned"), "it works")
        time.sleep(2)
        assert judge.calls()["count"] == calls
        print(f"{judged} judged, {len(deferred)} deferred, {cost(judge.calls()) / 1e6:.4f} of {cap} dollars charged")


@pytest.mark.heavy
def test_a_wrong_key_is_one_clear_line_and_nothing_is_lost(requests: Requests, start: Start) -> None:
    with simulated_judge(key="sk-right") as judge:
        requests.send(8)
        service = start(requests, judge)
        eventually(lambda: service.logged("circuit breaker of the judge opened"), "it says what is wrong")
        told = [line for line in service.logged() if line["level"] in ("warning", "error")]
        assert [line["why"] for line in told] == ["the judge rejects the key (401)"]
        assert "sk-test" not in json.dumps(told)
        assert not requests.read("judge.retry")
        assert service.stop() == 0
        start(requests, judge, judge__api_key="sk-right")
        requests.must_be_judged_exactly_once()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"judge__prices": {}}, "price"),
        ({"judge__base_url": ""}, "judge.base_url"),
    ],
)
def test_settings_that_cannot_be_kept_are_rejected_at_the_start(
    requests: Requests, settings: dict[str, Any], said: str
) -> None:
    given = environment(requests, "http://127.0.0.1:9/v1", **settings)
    if not given["RAGWEIR_JUDGE__BASE_URL"]:
        del given["RAGWEIR_JUDGE__BASE_URL"]
    done = program(*COMMAND, "judge", env={**os.environ, **given})
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def busiest_minute(calls: list[dict[str, Any]]) -> int:
    """The most calls in any sliding 60 s."""
    times = sorted(call["at"] for call in calls)
    return max(bisect_right(times, start + 60) - place for place, start in enumerate(times))


@pytest.mark.long
def test_half_an_hour_of_outages_leaves_evaluate_alone_and_every_event_judged_once(
    kafka: SharedBroker, prefix: str, start: Start, services: Services
) -> None:
    """503s, 429s and silence for ten minutes each under steady traffic, with a limit of calls a minute."""
    requests, per_minute, phase_s, pause_s, batch = Requests(kafka.bootstrap, prefix), 240, 600, 5, 10
    for name in ("interactions", "redrive"):
        create_topic(kafka.bootstrap, prefix + name, PARTITIONS)
    limits = {"judge__requests_per_minute": per_minute, "judge__timeout_s": 5, "judge__retry_delay_s": 20}
    routing = {"routing__rules": [], "routing__floors": {"rubric": 1}}
    with simulated_judge() as judge:
        service = start(requests, judge, **limits)
        evaluate = services.start("evaluate", "--slot", "0", variables=environment(requests, judge, **routing))
        eventually(lambda: evaluate.asked("/readyz")[0] == 200, "evaluate is ready")
        for shares in ({"503": 1.0}, {"429": 1.0}, {"hang": 1.0}):
            judge.set_faults(shares=shares, retry_after_s=10)
            until = time.monotonic() + phase_s
            while time.monotonic() < until:
                values = [
                    json.dumps({"event_id": f"event-{n}", "query": "How far?", "response": f"{n} miles."}).encode()
                    for n in range(requests.sent, requests.sent + batch)
                ]
                for number, value in enumerate(values):
                    produce(kafka.bootstrap, f"{prefix}interactions", [value], partition=number % PARTITIONS)
                requests.sent += batch
                time.sleep(pause_s)
                sent = requests.sent
                eventually(
                    lambda sent=sent: evaluate.sample('ragweir_evaluations_total{stage="scored"}') == sent,
                    "evaluate keeps up",
                )
        judge.set_faults(shares={})
        deadline = time.monotonic() + 1_500
        found: list[dict[str, Any]] = []
        while len(found) < requests.sent and time.monotonic() < deadline:
            time.sleep(5)
            found = [each for each in requests.read("evaluations") if each["stage"] == "judged"]
        assert evaluate.stop() == 0
        assert Counter(each["event_id"] for each in found) == Counter(f"event-{n}" for n in range(requests.sent))
        assert {each["decision"]["suites"][0]["status"] for each in found} == {"judged"}
        assert busiest_minute(judge.calls()["calls"]) <= per_minute
        assert len(service.logged("partitions assigned")) == len(evaluate.logged("partitions assigned")) == 1
        print(
            f"{requests.sent} events, {judge.calls()['count']} calls, at most {busiest_minute(judge.calls()['calls'])}"
        )
