"""Reaching Kafka: waiting for a broker that is away, and TLS, SASL and OAuth passed through, rejected when wrong."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from commands import evaluating, ragweir, settled, told
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from conftest import QUICK_BROKER, create_topic, produce, read_to_end
from poison import event
from services import Services, eventually, quick

from chaos.guarded import guarded_broker, login
from ragweir.errors import LocalServerError
from ragweir.streams.playground.local.kafka import local_kafka

SECRET = "hunter2-Xq7"
SIGN_IN = f"""
import base64, json, time

def part(claims):
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()

def token():
    now = int(time.time())
    return ".".join((part({{"alg": "none"}}), part({{"sub": "alice", "iat": now, "exp": now + 600}}), "")), now + 600

def wrong():
    return "{SECRET}", time.time() + 600

def raises():
    raise RuntimeError("{SECRET}")

constant = "{SECRET}"
"""


@dataclass(frozen=True)
class Guarded:
    """A broker with a plain listener, one that asks for SASL and one that speaks TLS."""

    plain: str
    sasl: str
    tls: str
    folder: Path
    """Holds the certificate `ca.pem` and the module `sign_in`."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A broker of its own with all its listeners; the plain one may do everything."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "sign_in.py").write_text(SIGN_IN)
    properties = {
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "allow.everyone.if.no.acl.found": "true",
        **login("PLAIN", "plain.PlainLoginModule", f'user_alice="{SECRET}"'),
        **login("OAUTHBEARER", "oauthbearer.OAuthBearerLoginModule", 'unsecuredLoginStringClaim_sub="broker"'),
    }
    try:
        with guarded_broker(folder, {"USERS": "SASL_PLAINTEXT", "TLS": "SSL"}, properties) as at:
            yield Guarded(at["PLAINTEXT"], at["USERS"], at["TLS"], folder)
    except LocalServerError as error:
        pytest.skip(str(error))


PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
SCRAM = PLAIN | {"sasl.mechanism": "SCRAM-SHA-256"}
OAUTH = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
TLS = {"security.protocol": "SSL", "ssl.ca.location": "ca.pem"}

RIGHT: tuple[tuple[str, str, dict[str, str], str], ...] = (
    ("SASL/PLAIN", "sasl", PLAIN | {"sasl.password": SECRET}, ""),
    ("OAuth", "sasl", OAUTH, "sign_in:token"),
    ("TLS", "tls", TLS, ""),
)

WRONG: tuple[tuple[str, str, dict[str, str], str, str], ...] = (
    ("a wrong password", "sasl", PLAIN | {"sasl.password": f"{SECRET}-not"}, "", "Invalid username or password"),
    ("a mechanism that nobody knows", "sasl", PLAIN | {"sasl.mechanism": "BOGUS"}, "", "mechanism: BOGUS"),
    ("a mechanism that the broker lacks", "sasl", SCRAM | {"sasl.password": SECRET}, "", "Unsupported SASL mechanism"),
    ("no sign-in where one is asked for", "sasl", {}, "", "a broker that expects TLS or SASL"),
    ("TLS to a plain port", "plain", TLS, "", "in state SSL_HANDSHAKE"),
    ("no TLS to a TLS port", "tls", {}, "", "expects TLS, which the client does not use: set"),
    ("a CA file that does not exist", "tls", TLS | {"ssl.ca.location": "nowhere.pem"}, "", "ssl.ca.location failed"),
    ("a certificate that nobody vouches for", "tls", {"security.protocol": "SSL"}, "", 'set kafka.client with "ssl.ca'),
    ("a sign-in function that does not exist", "sasl", OAUTH, "sign_in:nothing", "'sign_in:nothing' cannot be"),
    ("a sign-in module that does not exist", "sasl", OAUTH, "no_such_module:token", "'no_such_module:token' cannot be"),
    ("a sign-in that is no function", "sasl", OAUTH, "sign_in:constant", "'sign_in:constant' is not a function"),
    ("a sign-in function that raises", "sasl", OAUTH, "sign_in:raises", "sign_in:raises raised RuntimeError"),
    ("a token that is none", "sasl", OAUTH, "sign_in:wrong", "SASL authentication error"),
    ("a property that does not exist", "plain", {"no.such.password": SECRET}, "", '"no.such.password"'),
    ("a sign-in without TLS to a TLS port", "tls", PLAIN | {"sasl.password": SECRET}, "", "protocol to SASL_SSL"),
    ("a property's wrong value", "plain", {"security.protocol": "TLS"}, "", "security.protocol"),
)  # fmt: skip


def settings(client: dict[str, str], oauth: str) -> dict[str, str]:
    return {"RAGWEIR_KAFKA__CLIENT": json.dumps(client), **({"RAGWEIR_KAFKA__OAUTH": oauth} if oauth else {})}


def doctors_broker_line(output: bytes) -> str:
    (line,) = [line for line in output.decode().splitlines() if " broker: " in line]
    return line


@pytest.mark.parametrize(("listener", "client", "oauth"), [case[1:] for case in RIGHT], ids=[case[0] for case in RIGHT])
def test_what_is_right_connects(guarded: Guarded, listener: str, client: dict[str, str], oauth: str) -> None:
    """Librdkafka's own properties reach it: commands connect, and doctor says so without a secret."""
    servers = getattr(guarded, listener)
    shared = ("--bootstrap-servers", servers)
    assert ragweir(*shared, "topics", "show", folder=guarded.folder, **settings(client, oauth)).returncode == 0
    checked = ragweir(*shared, "doctor", folder=guarded.folder, **settings(client, oauth))
    assert doctors_broker_line(checked.stdout) == f"ok    broker: {servers} answers"
    assert SECRET not in (checked.stdout + checked.stderr).decode()


@pytest.mark.heavy
@pytest.mark.parametrize("cases", [WRONG[::2], pytest.param(WRONG[1::2], marks=pytest.mark.long)], ids=["half", "rest"])
def test_what_is_wrong_is_rejected_in_one_sentence(
    guarded: Guarded, cases: Sequence[tuple[str, str, dict[str, str], str, str]]
) -> None:
    """Each wrong setting is one sentence with an exit status, from a command as from doctor, and tells no secret."""

    def run(case: tuple[str, str, dict[str, str], str, str], command: str) -> subprocess.CompletedProcess[bytes]:
        _, listener, client, oauth, _ = case
        shared = ("--bootstrap-servers", getattr(guarded, listener))
        return ragweir(*shared, *command.split(), folder=guarded.folder, **settings(client, oauth))

    jobs = [(case, "doctor") for case in cases] + [(case, "topics show") for case in cases[::3]]
    with ThreadPoolExecutor(6) as pool:
        done = list(pool.map(lambda job: run(*job), jobs))
    for (case, command), result in zip(jobs, done, strict=True):
        what, *_, expected = case
        assert SECRET not in (result.stdout + result.stderr).decode(), (what, command)
        if command == "doctor":
            assert result.returncode == 1, what
            line = doctors_broker_line(result.stdout)
            assert line.startswith("wrong broker: "), (what, line)
            assert expected in line, (what, line)
        else:
            assert expected in told(result), what


@pytest.mark.heavy
def test_a_worker_does_not_go_on_asking_where_it_is_rejected(guarded: Guarded) -> None:
    """A worker that waiting would not help ends with the status that keeps it from being restarted."""
    for client, oauth in ((PLAIN | {"sasl.password": f"{SECRET}-not"}, ""), (OAUTH, "sign_in:nothing")):
        shared = ("--bootstrap-servers", guarded.sasl)
        done = ragweir(*shared, "evaluate", "--slot", "0", folder=guarded.folder, **settings(client, oauth))
        assert done.returncode == 2
        errors = [line for line in done.stderr.decode().splitlines() if json.loads(line)["level"] == "error"]
        assert len(errors) == 1
        assert SECRET not in done.stderr.decode()


@pytest.mark.heavy
def test_a_missing_permission_condemns_no_record(guarded: Guarded, prefix: str, tmp_path: Path) -> None:
    """While a worker may not write evaluations it writes no dead letter; once it may, every event is evaluated."""
    for name in ("interactions", "redrive", "evaluations", "dead-letter"):
        create_topic(guarded.plain, prefix + name)
    admin = AdminClient({"bootstrap.servers": guarded.plain, "log_level": 0})
    where = (ResourceType.TOPIC, f"{prefix}evaluations", ResourcePatternType.LITERAL, "User:alice", "*")
    seen = AclBinding(*where, AclOperation.DESCRIBE, AclPermissionType.ALLOW)
    written = AclBinding(*where, AclOperation.WRITE, AclPermissionType.ALLOW)
    admin.create_acls([seen])[seen].result(30)
    produce(guarded.plain, f"{prefix}interactions", [event(event_id=f"event-{number}") for number in range(20)])
    client = PLAIN | {"sasl.password": SECRET}
    with evaluating(guarded.sasl, prefix, tmp_path, **settings(client, "")) as service:
        eventually(lambda: len(service.logged("transaction aborted")) > 3, "it is refused again and again")
        assert len(read_to_end(guarded.plain, f"{prefix}dead-letter")) == 0
        admin.create_acls([written])[written].result(30)
        settled(guarded.plain, f"{prefix}evaluate", {(f"{prefix}interactions", 0): 20})
    assert len(read_to_end(guarded.plain, f"{prefix}evaluations")) == 20
    assert len(read_to_end(guarded.plain, f"{prefix}dead-letter")) == 0
    assert SECRET not in (tmp_path / f"{prefix}log").read_text()


@pytest.mark.heavy
def test_a_worker_waits_for_a_broker_that_is_absent(services: Services) -> None:
    """Without a broker a worker says so once, is not ready, and works as soon as one comes."""
    with local_kafka(properties=QUICK_BROKER) as kafka:
        for name in ("interactions", "redrive", "evaluations", "dead-letter"):
            create_topic(kafka.bootstrap, f"late.{name}")
        kafka.stop()
        service = services.start("evaluate", "--slot", "0", variables=quick(kafka.bootstrap, "late."))
        eventually(lambda: service.logged("no broker answers"), "it says that there is none")
        assert service.asked("/readyz") == (503, "waiting for a broker\n")
        assert service.asked("/healthz")[0] == 200
        kafka.start()
        eventually(lambda: service.asked("/readyz")[0] == 200, "it is ready")
        produce(kafka.bootstrap, "late.interactions", [event()])
        settled(kafka.bootstrap, "late.evaluate", {("late.interactions", 0): 1})
        assert len(read_to_end(kafka.bootstrap, "late.evaluations")) == 1
        assert service.stop() == 0
    assert len(service.logged("no broker answers")) == 1, "it was said once"
