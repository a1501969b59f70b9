"""The ACLs of deploy/kafka/acls.sh: each part of ragweir works with exactly these rights, and says which it lacks."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from commands import ROOT, environment, ragweir
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic
from conftest import produce, read_to_end
from scripted_judge import ScriptedPool, config
from services import Service, eventually

from chaos.acls import USERS, grant, rights
from chaos.compatibility import JUDGE
from chaos.fleet import judge_settings
from chaos.guarded import Guarded
from chaos.process import variables
from ragweir.schemas.access import PARTS
from ragweir.schemas.codec.json import encode
from ragweir.schemas.judging import LedgerEntry, ledger_key
from ragweir.schemas.topics import BROKER_TIME, TOPICS
from ragweir.streams.analysis.labels.on_topics import LABELS
from ragweir.streams.console.service import SERVICE as CONSOLE
from ragweir.streams.playground.simulated.server import SimulatedJudge, simulated_judge
from ragweir.streams.runtime.kafka.client import Identity, reader_properties
from ragweir.streams.runtime.kafka.configurations import configurations
from ragweir.streams.runtime.registry.output import written_topics
from ragweir.streams.services.export.service import PROJECTIONS
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.anchor_runs import AnchorSet
from ragweir.streams.services.judge.days import day_of
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.services.planner.control import NAME
from ragweir.streams.services.shared.from_settings import catalogue, otlp_results
from ragweir.streams.settings import Settings

SAMPLES = ROOT / "streams" / "playground" / "demo" / "samples.jsonl"


RECORDED = "tests/streams/traces/otlp/langchain-openinference/rag.otlp.pb"
SERVED = (*SERVICES, *PROJECTIONS, NAME, CONSOLE.name)
"""The parts that are services."""
OTLP = variables(input__format="otlp", assemble__settle_s=0.5)
TRACES = [
    right for right in rights(TRACES="otlp_spans") if right.principal in ("User:ragweir-key", "User:ragweir-join")
]


def granted(user: str, kind: ResourceType, operation: AclOperation, **variables: str) -> set[str]:
    """The names of the resources on which a user has a right."""
    return {
        right.name
        for right in rights(**variables)
        if (right.principal, right.restype, right.operation) == (f"User:ragweir-{user}", kind, operation)
    }


@pytest.mark.parametrize("judge", ["", "yes"])
@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"PREFIX": "team-a.", "INPUT_TOPIC": "theirs"},
        {"OTLP": "yes"},
        {"PREFIX": "team-a.", "OTLP": "yes", "OTLP_TOPIC": "results"},
        {"PREFIX": "team-a.", "FORMAT": "avro"},
    ],
)
@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_has_the_topics_groups_and_ids_that_the_code_uses(
    name: str, variables: dict[str, str], judge: str
) -> None:
    """And nothing of judging where there is no judge."""
    if name == "judge" and not judge:
        assert not [right for right in rights(**variables) if right.principal == "User:ragweir-judge"]
        return
    if name in ("match", "tally"):
        assert not [right for right in rights(**variables) if right.principal == f"User:ragweir-{name}"]
        variables = {**variables, "FEEDBACK": "yes"}
    if name in ("key", "join"):
        assert not [right for right in rights(**variables) if right.principal == f"User:ragweir-{name}"]
        variables = {**variables, "TRACES": "theirs otlp_logs"}
    settings = Settings(
        topics={"prefix": variables.get("PREFIX", "rag.")},
        input={"topic": "theirs", "format": "otlp"}
        if "TRACES" in variables
        else {"topic": variables.get("INPUT_TOPIC")},
        assemble={"topics": ("otlp_logs",)},
        judge={"base_url": "http://127.0.0.1:9/v1" if judge else None},
        # Nothing else is set, so that each part has the rights that its defaults need.
        output={
            "otlp": {"topic": variables.get("OTLP_TOPIC")} if "OTLP" in variables else None,
            "format": variables.get("FORMAT", "json"),
        },
    )
    service, prefix = SERVICES[name], settings.topics.prefix
    # A judge agent would start a thread.
    anchors = AnchorSet((), "grade", 0.5, higher_is_better=True, suite="grading", suite_version="1", model="m")
    judging = replace(config(), otlp=otlp_results(settings, catalogue(settings)), anchors=anchors)
    agent = JudgeAgent(judging, ScriptedPool()) if name == "judge" else service.agent(settings, 1)
    inputs = set(service.inputs(settings))
    changelogs = () if agent.changelog is None else (agent.changelog,)
    kept = {prefix + name for name in (*changelogs, *agent.recovery.outputs)} | {*agent.preparation.reads}
    kept |= {f"{prefix}evaluations"} if name == "match" else set()  # Its store is a projection of them.
    identity = Identity(name, 3, prefix)
    given = {**variables, "JUDGE": judge}
    assert granted(name, ResourceType.TOPIC, AclOperation.READ, **given) == inputs | kept
    assert granted(name, ResourceType.TOPIC, AclOperation.WRITE, **given) == {
        *map(settings.output_topic, agent.outputs),
        *(full for written, full in written_topics(settings).items() if written in agent.outputs),
    }
    progress = {identity.progress_group} if agent.recovery.outputs else set()
    assert granted(name, ResourceType.GROUP, AclOperation.READ, **given) == {identity.group} | progress
    (ours,) = granted(name, ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, **given)
    assert identity.member.startswith(ours)


@pytest.mark.parametrize("name", sorted(PROJECTIONS))
def test_a_projection_has_the_topics_that_it_reads(name: str) -> None:
    topics = {f"rag.{each}" for each in PROJECTIONS[name].projection(Settings()).topics}
    assert granted(name, ResourceType.TOPIC, AclOperation.READ) == topics
    assert not granted(name, ResourceType.TOPIC, AclOperation.WRITE)


def test_the_console_has_its_topics_and_those_of_the_texts_where_it_runs() -> None:
    assert not granted("console", ResourceType.TOPIC, AclOperation.READ)
    own = {f"rag.{each}" for each in CONSOLE.projection(Settings()).topics}
    read = granted("console", ResourceType.TOPIC, AclOperation.READ, CONSOLE="yes", INPUT_TOPIC="theirs")
    assert read == {*own, "theirs", "rag.redrive"}
    assert granted("console", ResourceType.TOPIC, AclOperation.WRITE, CONSOLE="yes") == {f"rag.{LABELS}"}


@pytest.mark.parametrize("name", ["evaluate", "judge"])
def test_rows_of_documents_are_written_where_they_are_asked_for(name: str) -> None:
    assert "rag.documents" in granted(name, ResourceType.TOPIC, AclOperation.WRITE, JUDGE="yes", BLAME="yes")
    assert "rag.documents" not in granted(name, ResourceType.TOPIC, AclOperation.WRITE, JUDGE="yes")


def test_every_part_and_topic_has_its_place_in_the_tables() -> None:
    """So that a new service, whose user would have no rights, is not forgotten."""
    assert {*PARTS} == {*SERVED, "publish", "operator"}
    for topic in TOPICS.values():
        assert topic.writers, f"nobody writes {topic.name}"
        assert {*topic.readers, *topic.writers} <= {*PARTS}


def test_every_topic_and_group_in_the_rights_is_one_of_ours_or_kafkas_own() -> None:
    topics = {f"rag.{name}" for name in TOPICS} | {"rag.", "rag.run.", "__consumer_offsets", "__transaction_state"}
    groups = {f"rag.{name}" for name in (*SERVICES, "evaluate.progress", "judge.progress", "redrive", "run.")} | {
        reader_properties(Settings())["group.id"]
    }
    for right in rights(JUDGE="yes", TRACES="otlp_spans", FEEDBACK="yes", CONSOLE="yes", BLAME="yes"):
        known = {ResourceType.TOPIC: topics | {"otlp_spans"}, ResourceType.GROUP: groups}.get(right.restype)
        assert known is None or right.name in known, right
        assert right.principal.removeprefix("User:ragweir-") in USERS


class Running:
    """A broker with an authorizer, on which commands and services run as users."""

    def __init__(self, guarded: Guarded, admin: AdminClient, folder: Path) -> None:
        self.bootstrap, self.admin, self.variables = guarded.plain, admin, guarded.as_user
        self.folder = folder

    def command(self, user: str, *arguments: str | Path) -> str:
        """Run a command as a user; it must succeed."""
        done = ragweir(*arguments, **self.variables(user))
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return done.stdout.decode()

    @contextmanager
    def service(self, name: str, **more: str) -> Iterator[Service]:
        """Run one slot of a service as its user, with further settings."""
        log = self.folder / f"{name}-{len(list(self.folder.iterdir()))}.log"
        variables = environment(**self.variables(name), **more)
        service = Service(["-m", "ragweir.streams.commands", name, "--slot", "0"], log, variables)
        try:
            yield service
        finally:
            service.process.terminate()
            service.ended()

    @contextmanager
    def without(self, taken: list[AclBinding]) -> Iterator[None]:
        """Take rights away for a while."""
        only = [
            AclBindingFilter(
                right.restype,
                right.name,
                right.resource_pattern_type,
                right.principal,
                right.host,
                right.operation,
                right.permission_type,
            )
            for right in taken
        ]
        for future in self.admin.delete_acls(only).values():
            assert len(future.result(30)) == 1
        yield
        grant(self.admin, taken)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A broker with short transactions and the script's rights, our topics and sample traffic, both made by users."""
    broker = Guarded(tmp_path_factory.mktemp("kafka"), properties={"transaction.max.timeout.ms": "6000"})
    with broker.running() as admin:
        running = Running(broker, admin, tmp_path_factory.mktemp("services"))
        grant(admin, rights(JUDGE="yes", FEEDBACK="yes", CONSOLE="yes"))
        running.command("operator", "topics", "create")
        running.command("publish", "publish", SAMPLES)
        yield running


def settings(judge: SimulatedJudge | None) -> dict[str, str]:
    """Settings under which a row selects every event, and a failure waits in judge.retry for a second."""
    url = judge.base_url if judge else "http://127.0.0.1:9/v1"
    return variables(**judge_settings(url, **JUDGE, judge__budgets_by_application={"rating-helper": 12}))


def trace_topic(guarded: Running) -> None:
    """Create the topic of traces, with the rights to assemble them."""
    grant(guarded.admin, TRACES)
    with suppress(KafkaException):  # It is there already.
        guarded.admin.create_topics([NewTopic("otlp_spans", 1)])["otlp_spans"].result(30)


def complaints(service: Service) -> list[str]:
    """The warnings of a service, but for its shorter transactions, and for a broker that is slow on a busy machine."""
    lines = [line for line in service.logged() if line["level"] in ("warning", "error") and "used_ms" not in line]
    said = [f"{line['event']} {line.get('reason', '')}" for line in lines]
    return [each for each in said if "waiting for one" not in each]


def label_on_a_page(console: Service, folder: Path, event_id: str) -> None:
    """Log in as a person does, read an answer whose texts are in Kafka, and label the first one of a draw."""
    address = eventually(
        lambda: re.search(r"shown at (http://\S+)/login with", console.log.read_text()), "it says where"
    )
    own = {"Sec-Fetch-Site": "same-origin"}
    with httpx.Client(base_url=address[1], headers=own, timeout=60, follow_redirects=True) as browser:
        browser.post("/login", data={"token": (folder / "token").read_text().strip(), "name": "Ada"})
        assert "Kafka" not in browser.get(f"/answers/{event_id}").text
        mark = re.search(r'name="mark" value="(\w+)"', browser.get("/review").text)
        assert mark
        assert "Saved: yes." in browser.post("/review", data={"do": "label", "choice": "y", "mark": mark[1]}).text
        assert "not_json" in browser.get("/dead-letters").text


def shortened(service: Service) -> list[int]:
    """The transaction timeouts that a service logs, one each time: it may not read the brokers' limit."""
    said = service.logged("the brokers allow no transactions")
    return [line["used_ms"] for line in said]


@pytest.mark.heavy
def test_an_operator_lets_the_brokers_stamp_the_rows(guarded: Running) -> None:
    name, value = BROKER_TIME
    entry = ConfigEntry(name, "CreateTime", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "rag.control", incremental_configs=[entry])
    guarded.admin.incremental_alter_configs([resource])[resource].result(30)
    eventually(
        lambda: configurations(guarded.admin, ["rag.control"])["rag.control"][name] != value, "the writers' clocks do"
    )
    assert "rag.control: the brokers stamp its records now" in guarded.command("operator", "topics", "create")


@pytest.mark.heavy
def test_every_part_works_with_exactly_its_rights(guarded: Running) -> None:
    """Interactions become evaluations and windows, which the exporter reads; people can look at all of it.

    The judge is simulated. It reads and writes each of its topics: some requests fail at first, some have no budget,
    and one is no request.
    """
    bootstrap = guarded.bootstrap
    samples = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
    deferred = sum(each["application"] == "rating-helper" for each in samples)
    written = 2 * len(samples) - deferred
    produce(bootstrap, "rag.judge.requests", [b"nonsense"])
    ledger = guarded.admin.list_topics("rag.judge.ledger", timeout=10).topics["rag.judge.ledger"]
    for partition in ledger.partitions:  # Their day's budget is spent.
        spent = LedgerEntry(day=day_of(time.time()), application="rating-helper", tenant="", partition=partition)
        booked = spent.model_copy(update={"spent": 12_000_000})
        key = ledger_key(booked)
        produce(bootstrap, "rag.judge.ledger", [encode(booked)], key=key, partition=partition)
    with (
        simulated_judge() as simulated,
        guarded.service("evaluate", **settings(simulated)),
        guarded.service("judge", **settings(simulated)) as judge,
        guarded.service("aggregate") as aggregate,
        guarded.service("export") as export,
        guarded.service("planner", **settings(simulated)) as planner,
    ):
        simulated.set_faults(shares={"500": "all"}, requests=3)

        eventually(lambda: aggregate.sample("ragweir_events_in_total") >= len(samples), "every event is scored")
        eventually(lambda: aggregate.sample("ragweir_events_in_total") == written, "every evaluation is in a window")
        assert len(read_to_end(bootstrap, "rag.evaluations")) == written
        eventually(lambda: export.asked("/readyz")[0] == 200, "the exporter has read the windows")
        assert all(read_to_end(bootstrap, f"rag.{name}") for name in JudgeAgent(config(), ScriptedPool()).outputs)
        assert complaints(judge) == ["first dead letter of its class "], "the one that is no request"
        eventually(lambda: planner.logged("rows planned"), "rows are planned")
        for service in (aggregate, export, planner):
            assert not complaints(service)
        assert [shortened(each) for each in (judge, aggregate, planner)] == 3 * [[5_000]]
        seen = guarded.command("operator", "doctor")
        assert "ok    group" in seen
        assert "warn  durability: there is one broker" in seen
        assert "ok    retention" in seen
        denied = ragweir("doctor", **guarded.variables("evaluate")).stdout.decode()
        assert "warn  durability: not checked: the user lacks the right DescribeConfigs" in denied
        assert "rag.windows" in guarded.command("operator", "topics", "show")
        guarded.command("operator", "tap", "rag.interactions")
        guarded.command("operator", "explain", samples[0]["event_id"])
        assert "not_json of judge" in guarded.command("operator", "dead-letter", "list")
        guarded.command("operator", "dead-letter", "redrive")
        drawing = {**guarded.variables("operator"), "RAGWEIR_LABELS__RANGE": "9999d"}
        drawn = ragweir("labels", "draw", "--metric", "unsupported_risk", "--count", "2", **drawing)
        assert drawn.returncode == 0, drawn.stderr
        votes = guarded.folder / "votes.csv"
        votes.write_text(f"event_id,value\n{samples[0]['event_id']},no\n")
        guarded.command("operator", "labels", "import", votes)
        guarded.command("operator", "labels", "report")
        folder = guarded.folder / "console-of-labels"
        with guarded.service("console", **variables(console__folder=str(folder), console__port=0)) as console:
            eventually(lambda: console.asked("/readyz")[0] == 200, "the console has read all topics")
            label_on_a_page(console, folder, samples[0]["event_id"])
            assert not complaints(console)
        assert "1 label" in guarded.command("operator", "labels", "report")
    for name in ("aggregate", "judge"):
        with guarded.service(name, **settings(None)) as again:
            eventually(lambda again=again: again.logged("state restored"), "it reads its own topic on the next start")
            eventually(lambda again=again: again.logged("partitions assigned"), "it goes on")
            assert not complaints(again)


@pytest.mark.heavy
def test_every_service_starts_with_the_default_settings_and_exactly_its_rights(guarded: Running) -> None:
    """With traces as the input and a judge, so that all of them run."""
    trace_topic(guarded)
    given = variables(
        **judge_settings("http://127.0.0.1:9/v1"),
        routing__key="a key",
        input__format="otlp",
        feedback__folder=str(guarded.folder / "answers"),
        console__folder=str(guarded.folder / "console"),
        console__port=0,
    )
    with ExitStack() as stack:
        running: dict[str, Service] = {}
        for name in SERVED:  # One after the other: a small machine does not start all of them within one wait.
            service = running[name] = stack.enter_context(guarded.service(name, **given))
            eventually(lambda service=service: service.asked("/readyz")[0] == 200, f"{name} is ready")
        assert running["evaluate"].logged("routing rows read")
        eventually(lambda: running["planner"].logged("rows planned"), "rows are planned")
        for service in running.values():
            assert not complaints(service)


@pytest.mark.heavy
def test_traces_are_assembled_with_exactly_their_rights(guarded: Running) -> None:
    """`key` and `join` work, and `join` restores its state on the next start."""
    bootstrap = guarded.bootstrap
    trace_topic(guarded)
    produce(bootstrap, "otlp_spans", [(ROOT / RECORDED).read_bytes()])

    def assembled() -> bool:
        return any(b"water damage" in (each.value() or b"") for each in read_to_end(bootstrap, "rag.interactions"))

    with guarded.service("key", **OTLP) as key, guarded.service("join", **OTLP) as join:
        eventually(assembled, "the trace is an interaction")
        assert not complaints(key)
        assert not complaints(join)
        assert (shortened(key), shortened(join)) == ([5_000], [5_000])
    with guarded.service("join", **OTLP) as again:
        eventually(lambda: again.logged("state restored"), "it reads its ledger")
        assert not complaints(again)


@pytest.mark.long
@pytest.mark.parametrize(
    "right",
    [each for each in TRACES if each.operation != AclOperation.DESCRIBE],
    ids=lambda right: f"{right.principal.rpartition('-')[2]} {right.operation.name} {right.name}",
)
def test_none_of_the_rights_to_assemble_is_superfluous(guarded: Running, right: AclBinding) -> None:
    trace_topic(guarded)
    for partition in range(2):  # An empty ledger is not read.
        produce(guarded.bootstrap, "rag.assembly", [b"{}"], partition=partition)
    with guarded.without([right]), guarded.service(right.principal.rpartition("-")[2], **OTLP) as service:
        eventually(lambda: complaints(service), "it complains")
        assert service.asked("/readyz")[0] != 200


def lots(name: str) -> list[list[AclBinding]]:
    """The rights of a service, in lots that it can tell at once that it lacks: on inputs, on other topics, the rest.

    Without judge.anchor_file no anchors are written.
    """
    granted = [right for right in rights(JUDGE="yes") if right.name != "rag.judge.anchors"]
    own = [right for right in granted if right.principal == f"User:ragweir-{name}"]
    topics = [right for right in own if right.restype == ResourceType.TOPIC]
    inputs = SERVICES[name].inputs(Settings())
    others = [
        right for right in own if right.restype != ResourceType.TOPIC and right.operation != AclOperation.DESCRIBE
    ]
    return [
        [right for right in topics if right.name in inputs],
        [right for right in topics if right.name not in inputs],
        *([right] for right in others),
    ]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "lot",
    [lot for name in ("evaluate", "judge") for lot in lots(name)],
    ids=lambda lot: f"{lot[0].principal.rpartition('-')[2]} {' '.join(sorted({right.name for right in lot}))}",
)
def test_a_service_says_which_rights_it_lacks(guarded: Running, lot: list[AclBinding]) -> None:
    """Some rights less, and it is not ready and says in one line which: so none of them is superfluous."""
    name = lot[0].principal.rpartition("-")[2]
    with guarded.without(lot), guarded.service(name, **settings(None)) as service:
        complaint = eventually(lambda: complaints(service), "it complains")[0]
        assert service.asked("/readyz")[0] != 200
    if lot[0].restype == ResourceType.TOPIC:
        named = complaint.removeprefix("there is no topic ").partition(", or it may not be seen")[0]
        assert set(named.split(", ")) == {right.name for right in lot}
    else:
        refused = {ResourceType.GROUP: "Group", ResourceType.TRANSACTIONAL_ID: "Transactional Id"}[lot[0].restype]
        assert f"{refused} authorization failed" in complaint
