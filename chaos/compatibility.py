"""`python -m chaos.compatibility`: ragweir on every supported version of Kafka, with the ACLs of deploy/kafka.

One broker of each version runs from Maven Central's jars, with listeners for plaintext, TLS, and TLS with SASL/SCRAM,
and with the StandardAuthorizer. Every service and every command that uses Kafka runs as its own user with exactly the
rights of deploy/kafka/acls.sh. Exits with 1 if anything fails.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from chaos.acls import grant, rights
from chaos.fleet import COMMAND, Fleet, Slot, judge_settings
from chaos.guarded import PREFIX, Guarded
from chaos.process import ROOT, clean_environment, variables
from chaos.waiting import require
from ragweir.errors import RagweirError
from ragweir.streams.playground.simulated.server import SimulatedJudge, simulated_judge
from tools.tables import markdown

VERSIONS = ("3.7.2", "3.9.2", "4.0.2", "4.1.2", "4.2.2", "4.3.1")
"""The newest patch of each minor version on Maven Central when this was last changed."""
COLUMNS = ("plaintext", "TLS", "SASL/SCRAM", "ACLs", "services", "commands")
SAMPLES = ROOT / "streams" / "playground" / "demo" / "samples.jsonl"
JUDGE: Mapping[str, object] = MappingProxyType(
    {
        "judge__daily_budget_usd": 1_000,
        "judge__attempts": 1,
        "judge__retry_delay_s": 1,
        "judge__breaker_failures": 100,
        "routing__key": "a key of this check",
        "routing__share": 1,
        "routing__floor_share": 1,
    }
)
"""Settings under which a row selects every event, and one that fails waits in judge.retry for a second."""
_SERVICES = ("evaluate", "judge", "aggregate", "export", "planner")
_CALL_S = 30.0
_PATIENCE_S = 90.0
_COMMAND_S = 180.0
_RUN = "tried"
_EXPECTED = ("first dead letter of its class", "dead letters", "no broker answers; waiting for one")
"""Warnings about the invalid record, and of a slow machine."""
_SHOW_TOPICS = ("topics", "show")
_COMMANDS: tuple[tuple[str, ...], ...] = (
    _SHOW_TOPICS,
    ("doctor",),
    ("tap", f"{PREFIX}interactions"),
    ("explain", "EVENT"),
    ("dead-letter", "list"),
    ("dead-letter", "show"),
    ("dead-letter", "redrive"),
    ("routing", "plan"),
    ("replay", "--run-id", _RUN),
    ("runs", "list"),
    ("runs", "show", _RUN),
    ("compare", "live", _RUN),
    ("slo", "rehearse", "--slo", "relevant: context_support >= 0.5 for 95%"),
)
"""The commands that run after `topics create` and `publish` and before `_LAST`, with an event's id for EVENT."""
_LAST = ("runs", "delete", _RUN, "--yes")
"""Fails until the sessions of the replay's members have ended."""


@dataclass(slots=True)
class VersionRow:
    """Results of one version: a cell of each column, and a line about everything that failed."""

    version: str
    cells: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def add(self, column: str, count: int, wrong: Sequence[str]) -> None:
        """Add a cell: the number of checks, and a line about each that failed."""
        self.cells[column] = f"{count - len(wrong)} of {count}"
        self.wrong += [f"{self.version}, {column}: {each}" for each in wrong]


def failures(settings: Mapping[str, str], *commands: Sequence[str]) -> list[str]:
    """Run commands, and return the last line of the output of each that fails."""
    wrong = []
    for words in commands:
        done = subprocess.run(
            [*COMMAND, *words],
            cwd=ROOT,
            env={**clean_environment(), "COLUMNS": "200", "NO_COLOR": "1", **settings},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_S,
        )
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            wrong.append(f"{' '.join(words)}: {lines[-1] if lines else done.returncode}")
    return wrong


def check(version: str, folder: Path, say: Callable[[str], None]) -> VersionRow:
    """Check everything on one version."""
    row, guarded = VersionRow(version), Guarded(folder, version)
    try:
        with guarded.running() as admin, simulated_judge() as judge:
            say(f"{version}: connections and rights")
            row.add("plaintext", 1, failures(guarded.as_administrator(), _SHOW_TOPICS))
            wrong = failures(guarded.as_administrator(tls=True), _SHOW_TOPICS)
            if not failures(guarded.as_administrator(tls=True, ca=False), _SHOW_TOPICS):
                wrong.append("a certificate of an unknown authority is accepted")
            row.add("TLS", 2, wrong)
            _check_rights(guarded, admin, row)
            wrong = failures(guarded.as_user("operator"), _SHOW_TOPICS)
            if not failures(guarded.as_user("operator", "another password"), _SHOW_TOPICS):
                wrong.append("a wrong password is accepted")
            row.add("SASL/SCRAM", 2, wrong)
            say(f"{version}: services and commands")
            _check_services_and_commands(guarded, judge, folder, row)
    except (RagweirError, KafkaException, TimeoutError, subprocess.SubprocessError) as error:
        row.wrong.append(f"{version}: {error}")
    return row


def _check_rights(guarded: Guarded, admin: AdminClient, row: VersionRow) -> None:
    """Check that a user without rights is rejected; then grant all rights that the script grants."""
    operator, create = guarded.as_user("operator"), ("topics", "create")
    wrong = [] if failures(operator, create) else ["a user without rights creates topics"]
    granted = rights(JUDGE="yes")
    grant(admin, granted)
    require(lambda: not failures(operator, create), _PATIENCE_S, "the broker does not apply the rights")
    if not failures(operator, ("publish", str(SAMPLES))):
        wrong.append("an operator publishes")
    row.add("ACLs", 2, wrong)
    row.cells["ACLs"] += f", {len(granted)} rights"


def _check_services_and_commands(guarded: Guarded, judge: SimulatedJudge, folder: Path, row: VersionRow) -> None:
    """Run all services and commands, and check that all outputs are there and nothing warns."""
    samples = [json.loads(line) for line in SAMPLES.read_text(encoding="utf-8").splitlines()]
    judge.set_faults(shares={"500": "all"}, requests=3)
    own = variables(**judge_settings(judge.base_url, **JUDGE))
    fleet = Fleet()
    try:
        slots = {
            name: fleet.add(Slot(name, 0, PREFIX, guarded.as_user(name) | own, folder / f"{name}.log"))
            for name in _SERVICES
        }
        wrong = failures(guarded.as_user("publish"), ("publish", str(SAMPLES)))
        producer = Producer({"bootstrap.servers": guarded.plain, "log_level": 0})
        producer.produce(f"{PREFIX}interactions", b"not json", b"nobody")
        producer.flush(_CALL_S)
        aggregate, expected = slots["aggregate"], {"ragweir_events_in_total": 2.0 * len(samples)}.items()
        require(lambda: expected <= aggregate.samples().items(), _PATIENCE_S, "evaluations are missing")
        require(lambda: slots["export"].fetch("/readyz") is not None, _PATIENCE_S, "the exporter is not ready")
        event = samples[0]["event_id"]
        commands = [tuple(event if word == "EVENT" else word for word in words) for words in _COMMANDS]
        wrong += failures(guarded.as_user("operator"), *commands)
        require(lambda: not failures(guarded.as_user("operator"), _LAST), _PATIENCE_S, "the replay cannot be deleted")
        # With the last one, and with `topics create` and `publish`, which have succeeded before.
        row.add("commands", len(commands) + 3, wrong)
        row.add("services", len(_SERVICES), _warnings(fleet)[: len(_SERVICES)])
    except TimeoutError as error:
        row.wrong.append(f"{row.version}, services: {error}; {'; '.join(_warnings(fleet)[:3])}")
    finally:
        fleet.close()


def _warnings(fleet: Fleet) -> list[str]:
    """Return the unexpected warnings and errors of all services."""
    return [
        f"{slot.service}: {line['event']} {line.get('reason', '')}".strip()
        for slot in fleet.slots
        for line in slot.logged("")
        if line["level"] in ("warning", "error") and not line["event"].startswith(_EXPECTED)
    ]


def table(rows: Sequence[VersionRow]) -> str:
    """Return the table in Markdown.

    >>> print(table([VersionRow("4.1.2", {"TLS": "2 of 2"})]))
    | Kafka | plaintext | TLS | SASL/SCRAM | ACLs | services | commands |
    | --- | --- | --- | --- | --- | --- | --- |
    | 4.1.2 | - | 2 of 2 | - | - | - | - |
    """
    table = Table("Kafka", *COLUMNS)
    for row in rows:
        table.add_row(row.version, *(row.cells.get(column, "-") for column in COLUMNS))
    return markdown(table)


def main() -> int:
    """Check the versions that the command line names, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m chaos.compatibility", description=__doc__)
    parser.add_argument("versions", nargs="*", help=f"versions of Kafka; by default {', '.join(VERSIONS)}")
    parser.add_argument("--folder", type=Path, help="folder in which to keep the logs and the brokers' data")
    given = parser.parse_args()
    err = Console(stderr=True, highlight=False)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="ragweir-compatibility-"))
    rows = [check(version, folder / version, err.print) for version in given.versions or VERSIONS]
    sys.stdout.write(f"Printed by `make compatibility` on {datetime.now(UTC):%Y-%m-%d}.\n\n{table(rows)}\n")
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
