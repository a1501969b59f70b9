"""`ragweir doctor` on secrets: what it prints holds none, and what makes them known to others is told."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import begun, ragweir

from ragweir.streams.analysis.checks import judge as checks
from ragweir.streams.analysis.checks import local
from ragweir.streams.analysis.checks.context import CheckContext, CheckWarning
from ragweir.streams.services.judge.probe import ProbeResult
from ragweir.streams.services.judge.protocol import ResponseFormat
from ragweir.streams.settings import RoutingSettings, Settings

SECRET = "hunter2-Xq7"
NOBODY = "127.0.0.1:9"


def test_nothing_that_doctor_prints_holds_a_secret(tmp_path: Path) -> None:
    """Neither the settings nor what the checks say, where neither Kafka nor the judge can be reached."""
    client = {"sasl.oauthbearer.config": f"secret={SECRET}", "sasl.password": SECRET, "ssl.key.password": SECRET}
    done = ragweir(
        "doctor",
        folder=tmp_path,
        RAGWEIR_KAFKA__BOOTSTRAP_SERVERS=NOBODY,
        RAGWEIR_KAFKA__CLIENT=json.dumps(client),
        RAGWEIR_ROUTING__KEY=SECRET,
        RAGWEIR_JUDGE__BASE_URL=f"http://{NOBODY}/v1?key={SECRET}",
        RAGWEIR_JUDGE__API_KEY=SECRET,
        RAGWEIR_JUDGE__DAILY_BUDGET_USD="none",
        RAGWEIR_JUDGE__TIMEOUT_S="2",
    )
    printed = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 1
    assert SECRET not in printed
    assert "judge.base_url = 'http://127.0.0.1:9/v1?key=********'" in printed
    assert "wrong judge: http://127.0.0.1:9/v1?key=********: " in printed
    assert "ok    secrets: " in printed


def test_an_error_of_librdkafka_holds_no_secret_either(tmp_path: Path) -> None:
    """Its log would quote the address that it could not have a token from."""
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "id",
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.token.endpoint.url": f"https://me:{SECRET}@{NOBODY}/token?key={SECRET}",
    }
    variables = {"RAGWEIR_KAFKA__BOOTSTRAP_SERVERS": NOBODY, "RAGWEIR_KAFKA__CLIENT": json.dumps(client)}
    done = ragweir("doctor", folder=tmp_path, **variables)
    printed = done.stdout.decode() + done.stderr.decode()
    assert SECRET not in printed
    assert "Failed to acquire SASL OAUTHBEARER token" in printed


def test_the_judges_address_is_told_without_what_it_carries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "probe", lambda _: ProbeResult(ResponseFormat(), 0, "model"))
    judge = {"base_url": f"https://proxy.example/v1?key={SECRET}", "daily_budget_usd": None}
    told = checks.judge(CheckContext(Settings(judge=judge)))
    assert told.startswith("https://proxy.example/v1?key=******** answers as model")


def warned(**settings: Any) -> str | None:
    try:
        local.secrets(CheckContext(Settings(**settings)))
    except CheckWarning as warning:
        return str(warning)
    return None


JUDGE = {"base_url": "http://127.0.0.1:9/v1"}


def test_the_key_that_ships_is_warned_of_where_events_are_selected() -> None:
    assert warned(judge=JUDGE) == (
        "routing.key is the shipped default: whoever knows it can choose ids that are judged; "
        "set RAGWEIR_ROUTING__KEY to `openssl rand -hex 16`"
    )
    assert warned() is warned(judge=JUDGE, routing=RoutingSettings(key=SECRET)) is None


def test_a_key_that_others_can_read_is_warned_of(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(SECRET)
    for mode, open_ in ((0o600, False), (0o400, False), (0o640, True), (0o604, True)):
        key.chmod(mode)
        told = f"judge.api_key_file can be read by other users of this machine; chmod 600 {key}"
        assert warned(judge={"api_key_file": key}) == (told if open_ else None)
    assert warned(judge={"api_key_file": tmp_path / "none"}) is None


@pytest.mark.parametrize("name", ["plugin.library.paths", "ssl.engine.location", "ssl.providers"])
def test_a_library_that_librdkafka_loads_is_named(name: str) -> None:
    told = warned(kafka={"client": {name: "mine"}})
    assert told == f"kafka.client loads libraries by {name}, which run with all rights of ragweir"


def test_a_warning_is_no_failure_and_stands_in_its_own_line(tmp_path: Path) -> None:
    variables = {"RAGWEIR_KAFKA__BOOTSTRAP_SERVERS": NOBODY, "RAGWEIR_JUDGE__BASE_URL": JUDGE["base_url"]}
    done = ragweir("doctor", folder=tmp_path, **variables)
    (line,) = [line for line in done.stdout.decode().splitlines() if line.startswith("warn")]
    assert line.startswith("warn  secrets: routing.key is the shipped default: ")


@pytest.mark.heavy
@pytest.mark.parametrize("key", [None, SECRET])
def test_evaluate_warns_of_the_key_that_ships(key: str | None, tmp_path: Path) -> None:
    """In its log, before it waits for Kafka; with a key of one's own it says nothing of it, and never tells the key."""
    variables = {"RAGWEIR_JUDGE__BASE_URL": JUDGE["base_url"]} | ({"RAGWEIR_ROUTING__KEY": key} if key else {})
    worker = begun("--bootstrap-servers", NOBODY, "evaluate", "--slot", "0", folder=tmp_path, **variables)
    assert worker.stderr is not None
    lines = []
    for line in worker.stderr:
        lines.append(json.loads(line))
        if lines[-1]["event"] == "started":
            break
    worker.terminate()
    worker.communicate(timeout=120)
    warnings = [line["event"] for line in lines if line["level"] == "warning"]
    assert [each.startswith("routing.key is the shipped default") for each in warnings] == [True] * (key is None)
    assert SECRET not in repr(lines)
