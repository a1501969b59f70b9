"""`python -m chaos.compatibility`: ragweir on every Kafka that it is said to run on, under the rights that ship.

One broker of each version is run from Maven Central's jars, with a plain listener for the administrator, one with TLS
and one with TLS and SASL/SCRAM, and with the StandardAuthorizer. Every service and every command that talks to Kafka
runs as its own user with exactly the rights of deploy/kafka/acls.sh. Exits with 1 if anything fails.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from rich.console import Console

from chaos.acls import USERS, grant, rights
from chaos.fleet import COMMAND, ROOT, Fleet, Slot, environment, outer_environment
from ragweir.errors import LocalServerError, RagweirError
from ragweir.streams.judge.probe import SIMULATED
from ragweir.streams.playground.local.jars import JarRunner
from ragweir.streams.playground.local.kafka import LocalKafka
from ragweir.streams.playground.local.node import LOOPBACK, Node, free_port
from ragweir.streams.playground.simulated.server import SimulatedJudge, simulated_judge

VERSIONS = ("3.7.2", "3.9.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1")
"""The newest patch of each minor version, as Maven Central had them when this was last changed."""
COLUMNS = ("plaintext", "TLS", "SASL/SCRAM", "ACLs", "services", "commands")
PREFIX = "rag."
SAMPLES = ROOT / "streams" / "playground" / "demo" / "samples.jsonl"
_SERVICES = ("evaluate", "judge", "aggregate", "export")
_SECRET = "a password of nobody"  # noqa: S105 (of a broker that lives for a minute, on loopback)
_MECHANISM = "SCRAM-SHA-512"
_CALL_S = 30.0
_PATIENCE_S = 90.0
_COMMAND_S = 180.0
_TURN_S = 0.1
_RUN = "tried"
_EXPECTED = ("first dead letter of its class", "dead letters", "no broker answers; waiting for one")
"""Warnings of the record that is no event, and of a machine that is busy: what is waited for has to come all the same.
"""
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("topics", "show"),
    ("doctor",),
    ("tap", f"{PREFIX}interactions"),
    ("explain", "EVENT"),
    ("dead-letter", "list"),
    ("dead-letter", "show"),
    ("dead-letter", "redrive"),
    ("replay", "--run-id", _RUN),
    ("runs", "list"),
    ("runs", "show", _RUN),
    ("compare", "live", _RUN),
    ("slo", "rehearse", "--slo", "relevant: context_support >= 0.5 for 95%"),
)
"""The commands that run after `topics create` and `publish` and before `_LAST`; EVENT stands for an event's id."""
_LAST = ("runs", "delete", _RUN, "--yes")
"""It is refused until the sessions of the replay's members have ended."""


@dataclass(slots=True)
class Row:
    """One version's row of the table: what each column says, and what went wrong, in words."""

    version: str
    cells: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def note(self, column: str, count: int, wrong: Sequence[str]) -> None:
        """Note how many things were tried, and what was wrong with those that failed."""
        self.cells[column] = f"{count - len(wrong)} of {count}"
        self.wrong += [f"{self.version}, {column}: {each}" for each in wrong]


class Guarded:
    """A broker of one version with all its listeners, on which nobody but the administrator has a right of his own."""

    def __init__(self, folder: Path, version: str) -> None:
        self._folder, self._version = folder, version
        ports: list[int] = []
        for _ in range(4):
            ports.append(free_port(*ports))
        self._plain, self._tls, self._users, self._controller = ports

    def _properties(self, store: Path) -> dict[str, str]:
        listeners = (
            f"PLAINTEXT://{LOOPBACK}:{self._plain},TLS://{LOOPBACK}:{self._tls},USERS://{LOOPBACK}:{self._users}"
        )
        login = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return {
            "listeners": f"{listeners},CONTROLLER://{LOOPBACK}:{self._controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,USERS:SASL_SSL,CONTROLLER:PLAINTEXT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": _MECHANISM,
            f"listener.name.users.{_MECHANISM.lower()}.sasl.jaas.config": f"{login} required;",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": _SECRET,
            "ssl.key.password": _SECRET,
        }

    @contextmanager
    def running(self) -> Iterator[AdminClient]:
        """Run it for the length of a `with` block; gives the administrator's client.

        Raises:
            LocalServerError: if this Kafka cannot be fetched or started here.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        node = Node(self._plain, self._controller, self._properties(self._certified()))
        runner = JarRunner(node, self._folder / "kafka", lambda _: None, version=self._version)
        try:
            LocalKafka(node, runner).start()
            yield AdminClient({"bootstrap.servers": f"{LOOPBACK}:{self._plain}", "log_level": 0})
        finally:
            runner.discard()

    def _certified(self) -> Path:
        keytool = shutil.which("keytool")
        if keytool is None:
            raise LocalServerError("keytool, which comes with Java, is not installed.")
        store = self._folder / "store.p12"
        given = ("-keystore", str(store), "-storepass", _SECRET, "-alias", "broker")
        made = ("-genkeypair", *given, "-storetype", "PKCS12", "-keyalg", "RSA", "-dname", f"CN={LOOPBACK}")
        subprocess.run([keytool, *made, "-ext", f"san=ip:{LOOPBACK}"], check=True, capture_output=True)
        exported = subprocess.run([keytool, "-exportcert", "-rfc", *given], check=True, capture_output=True)
        (self._folder / "ca.pem").write_bytes(exported.stdout)
        return store

    @property
    def plain(self) -> str:
        """The address of the plain listener."""
        return f"{LOOPBACK}:{self._plain}"

    def as_administrator(self, *, tls: bool = False) -> dict[str, str]:
        """Return the settings of who does not sign in."""
        ca = {"security.protocol": "SSL", "ssl.ca.location": str(self._folder / "ca.pem")}
        return self._settings(self._tls if tls else self._plain, ca if tls else {})

    def as_user(self, user: str, password: str = "") -> dict[str, str]:
        """Return the settings of a user who signs in; the password is the user's own unless another is given."""
        client = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._folder / "ca.pem"),
            "sasl.mechanism": _MECHANISM,
            "sasl.username": f"ragweir-{user}",
            "sasl.password": password or user,
        }
        return self._settings(self._users, client)

    def _settings(self, port: int, client: Mapping[str, str], **more: Any) -> dict[str, str]:
        return environment(f"{LOOPBACK}:{port}", PREFIX, client, topics__partitions=2, **more)


def ragweir(settings: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env={**outer_environment(), "COLUMNS": "200", "NO_COLOR": "1", **settings},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_COMMAND_S,
    )


def failures(settings: Mapping[str, str], commands: Sequence[Sequence[str]]) -> list[str]:
    """Run commands, and return what those say that do not succeed."""
    wrong = []
    for words in commands:
        done = ragweir(settings, *words)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().splitlines()
            wrong.append(f"{' '.join(words)}: {said[-1] if said else done.returncode}")
    return wrong


def tried(version: str, folder: Path, say: Callable[[str], None]) -> Row:
    """Try everything on one version, and return its row."""
    row, guarded = Row(version), Guarded(folder, version)
    try:
        with guarded.running() as admin, simulated_judge() as judge:
            for column, what in (
                ("plaintext", _try_plaintext),
                ("TLS", _try_tls),
                ("ACLs", _try_rights),
                ("SASL/SCRAM", _try_scram),
            ):
                say(f"{version}: {column}")
                what(guarded, admin, row)
            say(f"{version}: services and commands")
            _try_services_and_commands(guarded, judge, folder, row)
    except (RagweirError, KafkaException, TimeoutError, subprocess.SubprocessError) as error:
        row.wrong.append(f"{version}: {error}")
    return row


def _try_plaintext(guarded: Guarded, _: AdminClient, row: Row) -> None:
    row.note("plaintext", 1, failures(guarded.as_administrator(), [("topics", "show")]))


def _try_tls(guarded: Guarded, _: AdminClient, row: Row) -> None:
    wrong = failures(guarded.as_administrator(tls=True), [("topics", "show")])
    # Without the certificate of who vouches for the broker nobody may be believed.
    distrusting = guarded.as_administrator(tls=True) | {"RAGWEIR_KAFKA__CLIENT": '{"security.protocol": "SSL"}'}
    if not failures(distrusting, [("topics", "show")]):
        wrong.append("a certificate that nobody vouches for is believed")
    row.note("TLS", 2, wrong)


def _try_rights(guarded: Guarded, admin: AdminClient, row: Row) -> None:
    """Without rights a user is refused; then all are granted, one by one as the script does."""
    _make_users(admin)
    create = [("topics", "create")]
    wrong = [] if failures(guarded.as_user("operator"), create) else ["who has no right is let in"]
    granted = rights(JUDGE="yes")
    grant(admin, granted)
    _wait(lambda: not failures(guarded.as_user("operator"), create), "the rights are known to the broker")
    if not failures(guarded.as_user("operator"), [("publish", str(SAMPLES))]):
        wrong.append("an operator may publish")
    row.note("ACLs", 2, wrong)
    row.cells["ACLs"] += f", {len(granted)} rights"


def _make_users(admin: AdminClient) -> None:
    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = [UserScramCredentialUpsertion(f"ragweir-{user}", how, user.encode()) for user in USERS]
    for future in admin.alter_user_scram_credentials(wanted).values():  # type: ignore[arg-type]
        future.result(_CALL_S)


def _try_scram(guarded: Guarded, _: AdminClient, row: Row) -> None:
    wrong = failures(guarded.as_user("operator"), [("topics", "show")])
    if not failures(guarded.as_user("operator", "not his"), [("topics", "show")]):
        wrong.append("a wrong password is believed")
    row.note("SASL/SCRAM", 2, wrong)


def _judging(judge: SimulatedJudge) -> dict[str, str]:
    """Return settings under which every event is judged, and a failure is waited out in judge.retry."""
    chosen: dict[str, object] = {
        "judge__base_url": judge.base_url,
        "judge__model": SIMULATED,
        "judge__prices": {SIMULATED: {"input_usd": 1, "output_usd": 1}},
        "judge__daily_budget_usd": 1_000,
        "judge__attempts": 1,
        "judge__retry_delay_s": 1,
        "judge__breaker_failures": 100,
        "routing__rules": [],
        "routing__key": "a key of this check",
        "routing__floors": {"rubric": 1},
    }
    return {
        f"RAGWEIR_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in chosen.items()
    }


def _try_services_and_commands(guarded: Guarded, judge: SimulatedJudge, folder: Path, row: Row) -> None:
    """Run all services, let people look meanwhile, and see that everything came out without a complaint."""
    samples = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
    judge.set_faults(shares={"500": "all"}, requests=3)
    fleet = Fleet()
    try:
        slots = {
            name: fleet.add(Slot(name, 0, PREFIX, guarded.as_user(name) | _judging(judge), folder / f"{name}.log"))
            for name in _SERVICES
        }
        first = failures(guarded.as_user("publish"), [("publish", str(SAMPLES))])
        producer = Producer({"bootstrap.servers": guarded.plain, "log_level": 0})
        producer.produce(f"{PREFIX}interactions", b"not json", b"nobody")
        producer.flush(_CALL_S)
        _wait(lambda: _counted(slots["aggregate"]) == 2 * len(samples), "a scored and a judged evaluation of each")
        _wait(lambda: _ready(slots["export"]), "the exporter has read the windows")
        event = samples[0]["event_id"]
        commands = [tuple(event if word == "EVENT" else word for word in words) for words in _COMMANDS]
        wrong = first + failures(guarded.as_user("operator"), commands)
        _wait(lambda: not failures(guarded.as_user("operator"), [_LAST]), "the replay can be deleted")
        # With the last one, and with `topics create` and `publish`, which have succeeded before.
        row.note("commands", len(commands) + 3, wrong)
        complaints = [f"{name}: {said}" for name, slot in slots.items() for said in _complaints(slot)]
        row.note("services", len(_SERVICES), complaints[: len(_SERVICES)])
    except TimeoutError as error:
        complaints = [said for slot in fleet.slots for said in _complaints(slot)]
        row.wrong.append(f"{row.version}, services: in vain: {error}; {'; '.join(complaints[:3])}")
    finally:
        fleet.close()


def _counted(slot: Slot) -> int:
    sample = slot.sample("ragweir_events_in_total")
    return round(sample[1]) if sample is not None else -1


def _ready(slot: Slot) -> bool:
    started = slot.logged("started")
    if not started:
        return False
    with suppress(OSError), urllib.request.urlopen(started[-1]["telemetry"] + "/readyz", timeout=5) as answer:  # noqa: S310 (our own service)
        return bool(answer.status == 200)
    return False


def _complaints(slot: Slot) -> list[str]:
    """Return the warnings and errors of a service, but for those that are expected."""
    return [
        f"{line['event']} {line.get('reason', '')}".strip()
        for line in slot.logged("")
        if line["level"] in ("warning", "error") and not line["event"].startswith(_EXPECTED)
    ]


def _wait(what: Callable[[], bool], told: str) -> None:
    """Wait for something.

    Raises:
        TimeoutError: if it does not come.
    """
    until = time.monotonic() + _PATIENCE_S
    while not what():
        if time.monotonic() > until:
            raise TimeoutError(told)
        time.sleep(_TURN_S)


def table(rows: Sequence[Row], when: datetime) -> str:
    """Return the table in Markdown.

    >>> print(table([Row("4.1.2", {"TLS": "2 of 2"})], datetime(2026, 11, 23, tzinfo=UTC)))
    Printed by `make compatibility` on 2026-11-23.
    <BLANKLINE>
    | Kafka | plaintext | TLS | SASL/SCRAM | ACLs | services | commands |
    | --- | --- | --- | --- | --- | --- | --- |
    | 4.1.2 | - | 2 of 2 | - | - | - | - |
    """
    lines = [
        f"Printed by `make compatibility` on {when:%Y-%m-%d}.",
        "",
        f"| Kafka | {' | '.join(COLUMNS)} |",
        f"|{' --- |' * (1 + len(COLUMNS))}",
        *(f"| {row.version} | {' | '.join(row.cells.get(column, '-') for column in COLUMNS)} |" for row in rows),
    ]
    return "\n".join(lines)


def main() -> int:
    """Try the versions that the command line names, print the table, and give the exit status."""
    parser = argparse.ArgumentParser(prog="python -m chaos.compatibility", description=__doc__)
    parser.add_argument("versions", nargs="*", help=f"of Kafka; else {', '.join(VERSIONS)}")
    parser.add_argument("--folder", type=Path, help="keep the logs and the brokers' data here")
    given = parser.parse_args()
    err = Console(stderr=True, highlight=False)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="ragweir-compatibility-"))
    rows = [tried(version, folder / version, err.print) for version in given.versions or VERSIONS]
    sys.stdout.write(table(rows, datetime.now(UTC)) + "\n")
    wrong = [each for row in rows for each in row.wrong]
    for each in wrong:
        err.print(each, style="red", markup=False)
    if wrong:
        err.print(f"The logs are in {folder}.")
    elif given.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
