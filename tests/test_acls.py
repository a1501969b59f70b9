"""The ACLs of deploy/kafka/acls.sh: each part of ragweir works with exactly these rights, and says which it lacks."""

import json
import os
import subprocess
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from commands import ROOT, environment, ragweir
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from conftest import read_to_end
from faults import Service, eventually

from schemas.topics import TOPICS
from streams.kafka_client import Identity, reader_properties
from streams.local.kafka import local_kafka
from streams.local.node import free_port
from streams.service import SERVICES
from streams.settings import Settings

SAMPLES = ROOT / "streams" / "demo" / "samples.jsonl"
USERS = ("publish", "evaluate", "aggregate", "export", "operator")
RESOURCES = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
}


def commands(**variables: str) -> list[Namespace]:
    """The commands that the script would run, as kafka-acls.sh would understand them."""
    parser = ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", required=True)
    parser.add_argument("--resource-pattern-type", default="literal")
    for resource in RESOURCES:
        parser.add_argument(f"--{resource.replace('_', '-')}", action="append", default=[])
    shown = subprocess.run(
        ["bash", ROOT / "deploy" / "kafka" / "acls.sh", "--bootstrap-server", "kafka:9092"],
        env={**os.environ, "KAFKA_ACLS": "echo", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return [parser.parse_args(line.split()) for line in shown.stdout.splitlines()]


def rights(**variables: str) -> list[AclBinding]:
    """What the script grants, one right each."""
    return [
        AclBinding(
            kind,
            name,
            ResourcePatternType[command.resource_pattern_type.upper()],
            command.allow_principal,
            "*",
            AclOperation[command.operation.upper()],
            AclPermissionType.ALLOW,
        )
        for command in commands(**variables)
        for resource, kind in RESOURCES.items()
        for name in getattr(command, resource)
    ]


def granted(user: str, kind: ResourceType, operation: AclOperation, **variables: str) -> set[str]:
    """The names of the resources on which a user has a right."""
    return {
        right.name
        for right in rights(**variables)
        if (right.principal, right.restype, right.operation) == (f"User:ragweir-{user}", kind, operation)
    }


@pytest.mark.parametrize("variables", [{}, {"PREFIX": "team-a.", "INPUT_TOPIC": "theirs"}])
@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_has_the_topics_groups_and_ids_that_the_code_uses(name: str, variables: dict[str, str]) -> None:
    settings = Settings(
        topics={"prefix": variables.get("PREFIX", "rag.")}, input={"topic": variables.get("INPUT_TOPIC")}
    )
    service, prefix = SERVICES[name], settings.topics.prefix
    agent = service.agent(settings)
    inputs = set(service.inputs(settings))
    kept = {prefix + agent.changelog} if hasattr(agent, "changelog") else set()
    identity = Identity(name, 3, prefix)
    assert granted(name, ResourceType.TOPIC, AclOperation.READ, **variables) == inputs | kept
    assert granted(name, ResourceType.TOPIC, AclOperation.WRITE, **variables) == {prefix + o for o in agent.outputs}
    assert granted(name, ResourceType.GROUP, AclOperation.READ, **variables) == {identity.group}
    (ours,) = granted(name, ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, **variables)
    assert identity.member.startswith(ours)


def test_every_topic_and_group_in_the_rights_is_one_of_ours() -> None:
    topics = {f"rag.{name}" for name in TOPICS} | {"rag."}
    groups = {f"rag.{name}" for name in SERVICES} | {reader_properties(Settings())["group.id"]}
    for right in rights():
        known = {ResourceType.TOPIC: topics, ResourceType.GROUP: groups}.get(right.restype)
        assert known is None or right.name in known, right
        assert right.principal.removeprefix("User:ragweir-") in USERS


class Guarded:
    """A Kafka with an authorizer, on which nobody but the admin has a right that was not granted."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.sign_in = free_port(self.port)
        self._controller = free_port(self.port, self.sign_in)
        self.folder = folder
        self.admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0})

    def properties(self) -> dict[str, str]:
        """Without signing in one is the admin; the second listener takes users, whose passwords are their names."""
        users = " ".join(f'user_ragweir-{user}="{user}"' for user in USERS)
        return {
            "listeners": ",".join(
                f"{name}://127.0.0.1:{port}"
                for name, port in (
                    ("PLAINTEXT", self.port),
                    ("USERS", self.sign_in),
                    ("CONTROLLER", self._controller),
                )
            ),
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port},USERS://127.0.0.1:{self.sign_in}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            ),
        }

    def variables(self, user: str) -> dict[str, str]:
        """The settings of a user."""
        client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "PLAIN"}
        client |= {"sasl.username": f"ragweir-{user}", "sasl.password": user}
        return {
            "RAGWEIR_KAFKA__BOOTSTRAP_SERVERS": f"127.0.0.1:{self.sign_in}",
            "RAGWEIR_KAFKA__CLIENT": json.dumps(client),
            "RAGWEIR_TOPICS__PARTITIONS": "1",
        }

    def command(self, user: str, *arguments: str | Path) -> str:
        """Run a command as a user; it must succeed."""
        done = ragweir(*arguments, **self.variables(user))
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return done.stdout.decode()

    @contextmanager
    def service(self, name: str) -> Iterator[Service]:
        """Run one slot of a service as its user."""
        log = self.folder / f"{name}-{len(list(self.folder.iterdir()))}.log"
        service = Service(["-m", "streams.cli", name, "--slot", "0"], log, environment(**self.variables(name)))
        try:
            yield service
        finally:
            service.process.terminate()
            service.ended()

    @contextmanager
    def without(self, right: AclBinding) -> Iterator[None]:
        """Take a right away for a while."""
        only = AclBindingFilter(
            right.restype,
            right.name,
            right.resource_pattern_type,
            right.principal,
            right.host,
            right.operation,
            right.permission_type,
        )
        (removed,) = [future.result(30) for future in self.admin.delete_acls([only]).values()]
        assert len(removed) == 1
        yield
        self.grant([right])

    def grant(self, granted: list[AclBinding]) -> None:
        """Give rights."""
        for future in self.admin.create_acls(granted).values():
            future.result(30)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A guarded Kafka with the script's rights, our topics and sample traffic, both made by users with those rights.

    Its folder is its own: a container would not open the second listener.
    """
    guarded = Guarded(tmp_path_factory.mktemp("services"))
    folder = tmp_path_factory.mktemp("kafka")
    with local_kafka(port=guarded.port, folder=folder, properties=guarded.properties()):
        guarded.grant(rights())
        guarded.command("operator", "topics", "create")
        guarded.command("publish", "publish", SAMPLES)
        yield guarded


def test_every_part_works_with_exactly_its_rights(guarded: Guarded) -> None:
    """Interactions become evaluations and windows, which the exporter reads; people can look at all of it."""
    bootstrap = f"127.0.0.1:{guarded.port}"
    lines = len(SAMPLES.read_text(encoding="utf-8").splitlines())
    with guarded.service("evaluate"), guarded.service("aggregate") as aggregate, guarded.service("export") as export:
        eventually(lambda: aggregate.sample("ragweir_events_in_total") == lines, "every evaluation is in a window")
        assert len(read_to_end(bootstrap, "rag.evaluations")) == lines
        eventually(lambda: export.asked("/readyz")[0] == 200, "the exporter has read the windows")
        assert not [line for line in export.logged() + aggregate.logged() if line["level"] in ("warning", "error")]
        assert "ok    group" in guarded.command("operator", "doctor")
        assert "rag.windows" in guarded.command("operator", "topics", "show")
        guarded.command("operator", "tap", "rag.interactions")
    with guarded.service("aggregate") as again:
        eventually(lambda: again.logged("partitions assigned"), "the windows are read again on the next start")
        assert not [line for line in again.logged() if line["level"] in ("warning", "error")]


def told(right: AclBinding) -> str:
    """What a service has to say when it lacks a right. A topic on which a user has no right at all looks absent."""
    return {
        ResourceType.TOPIC: f"there is no topic {right.name}",
        ResourceType.GROUP: "Group authorization failed",
        ResourceType.TRANSACTIONAL_ID: "Transactional Id authorization failed",
    }[right.restype]


@pytest.mark.parametrize(
    "right",
    [right for right in rights() if right.principal == "User:ragweir-evaluate"],
    ids=lambda right: f"{right.operation.name.lower()} {right.name}",
)
def test_evaluate_says_which_right_it_lacks(guarded: Guarded, right: AclBinding) -> None:
    """One right less, and evaluate is not ready and says why in one line; so none of them is superfluous."""
    with guarded.without(right), guarded.service("evaluate") as service:

        def complaints() -> list[str]:
            lines = [line for line in service.logged() if line["level"] in ("warning", "error")]
            return [f"{line['event']} {line.get('reason', '')}" for line in lines]

        assert told(right) in eventually(complaints, "it complains")[0]
        assert service.asked("/readyz")[0] != 200
