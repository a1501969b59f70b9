"""The judge's connections and credentials: certificates, a proxy, headers from files, variables and a function."""

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from certificates import make_certificates, server_tls
from hostile_endpoint import Request, good, hostile, http
from scripted_endpoint import Endpoint, completion, judged_score, one, pool

from ragweir.errors import ConfigurationError
from ragweir.streams.services.judge import credentials
from ragweir.streams.services.judge.credentials import CredentialSource
from ragweir.streams.services.judge.pool import LiveJudgePool
from ragweir.streams.services.judge.protocol import EndpointUnusable
from ragweir.streams.settings import JudgeSettings

SECRET = "hunter2-Xq7"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("keys"), SECRET)


@pytest.fixture
def gateway(keys: Path) -> Iterator[Endpoint]:
    """An endpoint with a certificate of its own CA, that asks for the client's."""
    server = Endpoint(tls=server_tls(keys))
    yield server
    server.close()


@pytest.mark.slow
def test_both_ends_show_their_certificates(gateway: Endpoint, keys: Path) -> None:
    own: dict[str, Any] = {
        "certificate_file": keys / "client.pem",
        "certificate_key_file": keys / "client.key",
        "certificate_key_password": SECRET,
    }
    trusted = {"ca_file": keys / "server.pem"}
    with pool(gateway, **own, **trusted) as live:
        assert judged_score(one(live)) == 0.5
    with pool(gateway, **own, attempts=1, breaker_failures=9) as live:
        why = one(live).why
    assert why.startswith("the judge's endpoint cannot be trusted: its certificate is not trusted")
    assert why.endswith("set judge.ca_file to the file of its CA")
    with pool(gateway, **trusted, attempts=1, breaker_failures=9) as live:
        assert one(live).judged is None, "the endpoint did not ask for a certificate"


@pytest.mark.slow
def test_certificates_that_cannot_be_used_are_told_at_the_start(keys: Path) -> None:
    own = {"certificate_file": keys / "client.pem", "certificate_key_file": keys / "client.key"}
    for wrong in (own, {**own, "certificate_key_password": "wrong"}, {"certificate_file": keys / "none.pem"}):
        with pytest.raises(ConfigurationError, match=r"^judge\.certificate_file, ") as caught:
            LiveJudgePool(JudgeSettings(base_url="https://127.0.0.1:9/v1", **wrong))
        assert SECRET not in str(caught.value)
    for ca_file in (keys / "client.key", keys / "none.pem"):
        with pytest.raises(ConfigurationError, match=r"^judge\.ca_file "):
            LiveJudgePool(JudgeSettings(base_url="https://127.0.0.1:9/v1", ca_file=ca_file))


def test_a_proxy_of_the_settings_is_used_with_its_password_and_takes_the_place_of_the_environments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(request: Request) -> list[bytes]:
        return [http(json.dumps(good(request)).encode())]

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with hostile(answer) as proxy:
        given = f"http://user:{SECRET}@127.0.0.1:{proxy.port}"
        with pool(None, base_url="http://gateway.invalid/v1", proxy=given) as live:
            assert judged_score(one(live)) == 0.5
    head = proxy.requests[0].head
    assert head.startswith("POST http://gateway.invalid/v1/chat/completions HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic dXNlcjpodW50ZXIyLVhxNw==\r\n" in head
    with pytest.raises(ConfigurationError, match=r"^judge\.proxy is no URL"):
        LiveJudgePool(JudgeSettings(base_url="http://127.0.0.1:9/v1", proxy="http://[::1"))


# Credentials.


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def headers_of(source: CredentialSource) -> dict[str, str]:
    return dict(asyncio.run(source.current()).headers)


def settings(**more: Any) -> JudgeSettings:
    return JudgeSettings(base_url="http://127.0.0.1:9/v1", **more)


def test_the_key_is_in_one_header_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a key there is none, and a key in another header takes the place of that of the settings."""
    monkeypatch.setenv("A_KEY", SECRET)
    (tmp_path / "key").write_text(f"{SECRET}\n")
    of_variable, of_file = {"variable": "A_KEY"}, {"file": tmp_path / "key"}
    cases: tuple[tuple[dict[str, Any], dict[str, str]], ...] = (
        ({}, {}),
        ({"api_key": "k"}, {"authorization": "Bearer k"}),
        ({"api_key": "k", "headers": {"x-title": "t"}}, {"authorization": "Bearer k", "x-title": "t"}),
        ({"api_key": "k", "headers": {"API_KEY": of_variable}}, {"api-key": SECRET}),
        ({"headers": {"Authorization": of_file}}, {"authorization": SECRET}),
    )
    for given, sent in cases:
        assert headers_of(CredentialSource(settings(**given))) == sent
    assert asyncio.run(CredentialSource(settings(query={"key": of_file})).current()).query == {"key": SECRET}
    assert headers_of(CredentialSource(settings(api_key="k"), "Basic b")) == {"authorization": "Basic b"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"headers": {"a": {"variable": "NONE_SUCH"}}}, "judge.headers.a: the environment has no printable NONE_SUCH"),
        ({"query": {"a": {"file": "none"}}}, "judge.query.a cannot be read"),
        ({"api_key_file": "none"}, "judge.api_key_file cannot be read"),
        ({"auth": "no_such_module:f"}, "'no_such_module:f' cannot be imported"),
    ],
)
def test_credentials_that_cannot_be_read_are_told_at_the_start(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        CredentialSource(settings(**given))
    assert str(caught.value).startswith(told)


def test_a_file_with_two_lines_is_no_header(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\nx-other: {SECRET}")
    with pytest.raises(ConfigurationError, match="cannot be read") as caught:
        CredentialSource(settings(api_key_file=tmp_path / "key"))
    assert SECRET not in str(caught.value)


TOKENS: list[Any] = []


def next_token() -> Any:
    """The function of `judge.auth`: the next of the tokens."""
    token = TOKENS.pop(0)
    if isinstance(token, Exception):
        raise token
    return token


def source(clock: Clock, *tokens: Any, **more: Any) -> CredentialSource:
    TOKENS[:] = tokens
    return CredentialSource(settings(auth=f"{__name__}:next_token", api_key="k", **more), clock=clock)


def test_headers_of_a_function_are_replaced_before_they_expire() -> None:
    clock = Clock()
    given = source(clock, ({"Authorization": "one"}, 1_600.0), ({"Authorization": "two"}, 1_610.0))
    sent = []
    for now in (1_000.0, 1_539.0, 1_540.0, 1_570.0):
        clock.now = now
        sent.append(headers_of(given)["authorization"])
    assert sent == ["one", "one", "two", "two"], "a minute before, or half of a time that is short"
    assert TOKENS == []


def test_a_function_that_fails_is_named_and_says_nothing_of_the_token() -> None:
    """While the last headers hold, they are used."""
    clock = Clock()
    broken = ValueError(SECRET)
    given = source(clock, broken, ({"a": "one"}, 1_100.0), broken, broken)
    with pytest.raises(EndpointUnusable) as caught:
        headers_of(given)
    assert str(caught.value) == f"judge.auth: {__name__}:next_token raised ValueError"
    assert headers_of(given)["a"] == "one"
    clock.now = 1_090.0
    assert headers_of(given)["a"] == "one"
    clock.now = 1_101.0
    with pytest.raises(EndpointUnusable):
        headers_of(given)


@pytest.mark.parametrize(
    "given",
    [None, ({"a": "b"},), ({"a": "b"}, 999.0), ({"a": "b\r\nc: d"}, 2_000.0), ([], 2_000.0), ({}, float("nan"))],
    ids=["nothing", "no time", "expired", "two lines", "no headers", "no number"],
)
def test_what_a_function_returns_has_to_be_headers_and_a_time_to_come(given: Any) -> None:
    with pytest.raises(EndpointUnusable, match=r"judge\.auth"):
        headers_of(source(Clock(), given))


def test_a_function_that_hangs_ends_with_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = threading.Event()
    monkeypatch.setattr(credentials, "import_function", lambda _: stop.wait)
    hanging = CredentialSource(settings(auth="a:b", timeout_s=0.1))
    with pytest.raises(EndpointUnusable, match=r"judge\.auth: a:b raised TimeoutError"):
        headers_of(hanging)
    stop.set()


def test_rejected_credentials_are_read_again_twice_a_minute_at_most(tmp_path: Path) -> None:
    """Or a key that is wrong would be read, or a function called, for each call."""
    clock, key = Clock(), tmp_path / "key"
    key.write_text("one")
    given = CredentialSource(settings(api_key_file=key), clock=clock)

    async def run() -> list[bool]:
        renewed = []
        for now, text in ((1_000, "one"), (1_001, "two"), (1_031, "two"), (1_032, "three")):
            clock.now = now
            key.write_text(text)
            renewed.append(await given.renew(await given.current()))
        return renewed

    assert asyncio.run(run()) == [False, False, True, False]
    assert headers_of(given) == {"authorization": "Bearer two"}


def test_calls_that_were_under_way_with_the_old_key_take_the_new_one(tmp_path: Path) -> None:
    """One reads it, and the others find it; a file that is gone leaves the old key."""
    clock, key = Clock(), tmp_path / "key"
    key.write_text("one")
    given = CredentialSource(settings(api_key_file=key), clock=clock)

    async def run() -> list[bool]:
        old = await given.current()
        key.write_text("two")
        several = list(await asyncio.gather(*(given.renew(old) for _ in range(3))))
        clock.now += 60
        key.unlink()
        return [*several, await given.renew(await given.current())]

    assert asyncio.run(run()) == [True, True, True, False]
    assert headers_of(given) == {"authorization": "Bearer two"}


def test_no_log_has_a_credential(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of calls that are rejected and answered, with headers, a query and a body of one's own."""
    endpoint = Endpoint()
    (tmp_path / "key").write_text(SECRET)
    try:
        endpoint.script = lambda asked: completion(asked, "no JSON")
        secret: dict[str, Any] = {"file": tmp_path / "key"}
        given = {"headers": {"api-key": secret}, "query": {"sig": secret}, "extra_body": {"user": SECRET}}
        with pool(endpoint, **given) as live:
            told = str(one(live))
        (first, *_) = endpoint.asked
    finally:
        endpoint.close()
    assert (first.headers["api-key"], first.path.endswith(f"?sig={SECRET}"), first.body["user"]) == (
        SECRET,
        True,
        SECRET,
    )
    assert SECRET not in told + str(capfd.readouterr())
