"""The rights that deploy/kafka/acls.sh grants, as Kafka's admin API takes them: without Kafka's own command."""

from __future__ import annotations

import os
import re
import subprocess
from argparse import ArgumentParser, Namespace
from pathlib import Path
from shutil import which
from types import MappingProxyType

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

SCRIPT = Path(__file__).parent.parent / "deploy" / "kafka" / "acls.sh"
USERS = ("publish", "evaluate", "judge", "aggregate", "export", "operator")
"""The users that it knows, without the prefix ragweir-."""
RESOURCES = MappingProxyType(
    {
        "topic": ResourceType.TOPIC,
        "group": ResourceType.GROUP,
        "transactional_id": ResourceType.TRANSACTIONAL_ID,
    }
)


def commands(**variables: str) -> list[Namespace]:
    """Return the commands that the script would run, as kafka-acls.sh would understand them.

    Args:
        variables: of the script's environment.
    """
    parser = ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", required=True)
    parser.add_argument("--resource-pattern-type", default="literal")
    for resource in RESOURCES:
        parser.add_argument(f"--{resource.replace('_', '-')}", action="append", default=[])
    shown = subprocess.run(
        [which("bash") or "bash", str(SCRIPT), "--bootstrap-server", "kafka:9092"],
        env={**os.environ, "KAFKA_ACLS": "echo", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return [parser.parse_args(line.split()) for line in shown.stdout.splitlines()]


def rights(**variables: str) -> list[AclBinding]:
    """Return what the script grants, one right each.

    >>> sorted({right.principal for right in rights()})[:2]
    ['User:ragweir-aggregate', 'User:ragweir-evaluate']

    Args:
        variables: of the script's environment.
    """
    return [
        AclBinding(
            kind,
            name,
            ResourcePatternType[command.resource_pattern_type.upper()],
            command.allow_principal,
            "*",
            AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", command.operation).upper()],
            AclPermissionType.ALLOW,
        )
        for command in commands(**variables)
        for resource, kind in RESOURCES.items()
        for name in getattr(command, resource)
    ]


def grant(admin: AdminClient, granted: list[AclBinding]) -> None:
    """Give rights.

    Raises:
        KafkaException: if Kafka refuses.
    """
    for future in admin.create_acls(granted).values():
        future.result(30)
