"""The rights that deploy/kafka/acls.sh grants, for Kafka's admin API instead of Kafka's own command."""

from __future__ import annotations

import os
import re
import subprocess
from argparse import ArgumentParser
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from ragweir.schemas.access import PARTS

_SCRIPT = Path(__file__).parent.parent / "deploy" / "kafka" / "acls.sh"
USERS = tuple(PARTS)
"""The users of the script, without the prefix ragweir-."""
_RESOURCES = ("topic", "group", "transactional_id")


def rights(**variables: str) -> list[AclBinding]:
    """Return what the script grants with these environment variables, one right each.

    >>> sorted({right.principal for right in rights()})[:2]
    ['User:ragweir-aggregate', 'User:ragweir-evaluate']
    """
    parser = ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", required=True)
    parser.add_argument("--resource-pattern-type", default="literal")
    for resource in _RESOURCES:
        parser.add_argument(f"--{resource.replace('_', '-')}", action="append", default=[])
    printed = subprocess.run(
        ["bash", str(_SCRIPT), "--bootstrap-server", "kafka:9092"],  # noqa: S607 (found on the PATH)
        env={**os.environ, "KAFKA_ACLS": "echo", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        AclBinding(
            ResourceType[resource.upper()],
            name,
            ResourcePatternType[command.resource_pattern_type.upper()],
            command.allow_principal,
            "*",
            AclOperation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", command.operation).upper()],
            AclPermissionType.ALLOW,
        )
        for command in (parser.parse_args(line.split()) for line in printed.stdout.splitlines())
        for resource in _RESOURCES
        for name in getattr(command, resource)
    ]


def grant(admin: AdminClient, granted: list[AclBinding]) -> None:
    """Grant rights, or raise the KafkaException with which the broker rejects one."""
    for future in admin.create_acls(granted).values():
        future.result(30)
