"""The rules that every request to the console keeps. Each test fails without the check that it is about."""

import hmac
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from browsers import FROM_OWN_PAGE, HOST, TOKEN, console_of, logged_in, stranger
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from structlog.testing import capture_logs

from ragweir.errors import ConfigurationError, Unreachable
from ragweir.streams.console.safety import authentication
from ragweir.streams.console.safety.authentication import SESSION_SECONDS, Access, kept_login, kept_token, read_token
from ragweir.streams.console.safety.forms import MAX_BYTES, read_form
from ragweir.streams.runtime.kafka.record_fetcher import RecordFetcher
from ragweir.streams.runtime.serving.server import HEAD_BYTES
from ragweir.streams.settings import from_groups
from ragweir.streams.settings.console import ConsoleSettings

SECRET = "what the event said"
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)


def who(request: Request) -> Response:
    return PlainTextResponse(f"{request.state.person}")


async def change(request: Request) -> Response:
    return PlainTextResponse(repr(await read_form(request)))


def broken(_: Request) -> Response:
    raise ValueError(SECRET)


OTHER_METHODS = ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW")
PAGES = [
    Route("/", who),
    Route("/change", change, methods=["POST", *OTHER_METHODS]),
    Route("/broken", broken),
]


def test_a_page_is_shown_to_nobody_who_has_not_logged_in() -> None:
    client = stranger(console_of(PAGES))
    answer = client.get("/?slo=a&x=%3Cb%3E")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2F%3Fslo%3Da%26x%3D%253Cb%253E")
    assert client.post("/change", headers=FROM_OWN_PAGE).status_code == 401
    assert client.get("/no-such-page").status_code == 303


def test_the_token_begins_a_session_that_leads_to_the_page_that_was_wanted() -> None:
    client = stranger(console_of(PAGES))
    answer = client.post("/login", data={"token": TOKEN, "name": " Ada ", "next": "/?slo=a"}, headers=FROM_OWN_PAGE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/?slo=a")
    assert client.get("/").text == "Ada"
    assert client.post("/logout", headers=FROM_OWN_PAGE).status_code == 303
    assert client.get("/").status_code == 303


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\u00e9", "x" * 10_000])
def test_another_token_begins_none(token: str) -> None:
    client = stranger(console_of(PAGES))
    answer = client.post("/login", data={"token": token, "name": "Ada"}, headers=FROM_OWN_PAGE)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert "This is not the token" in answer.text


@pytest.mark.parametrize("name", ["", "  ", "a" * 201, "A\x1b[2J"])
def test_a_session_has_a_name(name: str) -> None:
    answer = stranger(console_of(PAGES)).post("/login", data={"token": TOKEN, "name": name}, headers=FROM_OWN_PAGE)
    assert answer.status_code == 422
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("wanted", ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)"])
def test_a_login_leads_to_no_other_host(wanted: str) -> None:
    app = console_of(PAGES)
    form = {"token": TOKEN, "name": "Ada", "next": wanted}
    assert stranger(app).post("/login", data=form, headers=FROM_OWN_PAGE).headers["location"] == "/"
    assert 'name="next" value="/"' in stranger(app).get("/login", params={"next": wanted}).text
    assert stranger(app).get(f"http://{HOST}//evil.example/%5c").headers["location"] == "/login?next=%2F"


@pytest.mark.parametrize(("url", "is_secure"), [(None, False), ("https://ragweir.example.org", True)])
def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_expires(url: str | None, is_secure: bool) -> None:
    client = stranger(console_of(PAGES, public_url=url))
    answer = client.post("/login", data={"token": TOKEN, "name": "Ada"}, headers=FROM_OWN_PAGE)
    _, *attributes = answer.headers["set-cookie"].lower().split("; ")
    assert {"httponly", "samesite=strict", f"max-age={SESSION_SECONDS}", "path=/"} <= {*attributes}
    assert ("secure" in attributes) is is_secure


def _request(cookie: str = "", client: str = "127.0.0.1", **headers: str) -> Request:
    sent = {**headers, "cookie": cookie}
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()]
    return Request({"type": "http", "headers": raw, "client": (client, 1), "path": "/"})


def _cookie_of(access: Access, name: str = "Ada") -> str:
    response = Response()
    access.begin(response, name)
    return response.headers["set-cookie"].partition(";")[0]


def test_a_session_ends_by_its_time_and_with_its_token() -> None:
    """The browser's own Max-Age is not relied on."""
    now = [1_000.0]
    access = Access(ConsoleSettings(), TOKEN, lambda: now[0])
    cookie = _cookie_of(access)
    now[0] += SESSION_SECONDS - 1
    assert access.person(_request(cookie)) == "Ada"
    own_name = Access(ConsoleSettings(), "another-token-altogether", lambda: now[0])
    name = _cookie_of(own_name).partition("=")[0]
    assert own_name.person(_request(f"{name}={cookie.partition('=')[2]}")) is None
    now[0] += 1
    assert access.person(_request(cookie)) is None


@pytest.mark.parametrize("place", [0, 5, -1])
def test_a_changed_cookie_is_none(place: int) -> None:
    access = Access(ConsoleSettings(), TOKEN)
    name, _, value = _cookie_of(access).partition("=")
    part = list(value)
    part[place] = "A" if part[place] != "A" else "B"
    assert access.person(_request(f"{name}={value}")) == "Ada"
    assert access.person(_request(f"{name}={''.join(part)}")) is None
    for odd in ("", ".", "..", "a.b.c", f"{value}.", "\u00e9.1.\u00e9"):
        assert access.person(_request(f"{name}={odd}")) is None


def test_tokens_and_sessions_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(given: bytes, known: bytes) -> bool:
        compared.append(known)
        return given == known

    monkeypatch.setattr(authentication.hmac, "compare_digest", compare)
    assert hmac.compare_digest is compare
    access = Access(ConsoleSettings(trusted_proxies=["10.0.0.0/8"], token_file=Path("t")), TOKEN)
    assert access.admits(TOKEN)
    assert compared == [TOKEN.encode()]
    assert access.person(_request(_cookie_of(access))) == "Ada"
    assert len(compared) == 2
    named = _request(client="10.0.0.1", x_ragweir_token=TOKEN, x_forwarded_user="Bo")
    assert access.person(named) == "Bo"
    assert compared[2] == TOKEN.encode()


PROXY = {"trusted_proxies": ["10.1.0.0/16"], "token_file": "token"}
NAMED = {"X-Ragweir-Token": TOKEN, "X-Forwarded-User": "Bo"}


@pytest.mark.parametrize(
    ("address", "headers", "is_believed"),
    [
        ("10.1.2.3", NAMED, True),
        ("10.2.0.1", NAMED, False),
        ("127.0.0.1", NAMED, False),
        ("10.1.2.3", {"X-Forwarded-User": "Bo"}, False),
        ("10.1.2.3", {**NAMED, "X-Ragweir-Token": "wrong"}, False),
        ("10.1.2.3", {"X-Ragweir-Token": TOKEN}, False),
        ("10.1.2.3", {**NAMED, "X-Forwarded-User": " "}, False),
        ("10.2.0.1", {**NAMED, "X-Forwarded-For": "10.1.2.3"}, False),
    ],
)
def test_a_proxy_is_believed_by_its_address_and_the_token_together(
    address: str, headers: dict[str, str], is_believed: bool
) -> None:
    answer = stranger(console_of(PAGES, **PROXY), address).get("/", headers=headers)
    assert (answer.status_code, answer.text) == ((200, "Bo") if is_believed else (303, ""))


def test_the_header_of_the_person_has_the_name_that_the_settings_give_it() -> None:
    client = stranger(console_of(PAGES, **PROXY, user_header="X-Remote-User"), "10.1.2.3")
    assert client.get("/", headers=NAMED).status_code == 303
    assert client.get("/", headers={**NAMED, "X-Remote-User": "Cy"}).text == "Cy"


@pytest.mark.parametrize(
    "settings",
    [
        {"trusted_proxies": ["127.0.0.1/32"]},
        {"trusted_proxies": ["10.0.0.0/8"]},
        {"host": "0.0.0.0"},
        {"host": "192.0.2.1"},
        {"host": "example.org"},
        {"public_url": "http://ragweir.example.org"},
        {"public_url": "https://ragweir.example.org/console"},
        {"public_url": "https://user@ragweir.example.org"},
        {"public_url": "ftp://ragweir.example.org"},
        {"trace_url": "javascript:alert({trace_id})"},
        {"trace_url": "https://traces.example.org/"},
        {"user_header": "X User"},
    ],
)
def test_settings_that_would_open_the_console_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ConsoleSettings(**settings)


@pytest.mark.parametrize("host", [HOST, "localhost", "LOCALHOST:1", "[::1]:8600", "ragweir.example.org"])
def test_the_console_answers_to_its_own_names(host: str) -> None:
    app = console_of(PAGES, public_url="https://ragweir.example.org")
    assert stranger(app).get("/login", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "ragweir.example.org", "localhost.evil.example", "127.0.0.1.evil.example", "", "a@localhost"],
)
def test_the_console_answers_to_no_other_name(host: str) -> None:
    """A name that an attacker's DNS server leads here makes the attacker's page one of the same origin."""
    answer = stranger(console_of(PAGES)).get("/login", headers={"Host": host})
    assert answer.status_code == 421


PUBLIC = "https://ragweir.example.org"


@pytest.mark.parametrize(
    ("headers", "is_taken"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"}, True),
        ({"Sec-Fetch-Site": "same-site", "Origin": PUBLIC}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": PUBLIC}, False),
        ({"Sec-Fetch-Site": "none", "Origin": PUBLIC}, False),
        ({"Origin": PUBLIC}, True),
        ({"Origin": "http://ragweir.example.org"}, False),
        ({"Origin": "https://evil.example"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": f"http://{HOST}"}, True),
        ({"Origin": f"https://{HOST}"}, False),
        ({"Origin": "http://127.0.0.1:1"}, False),
        ({}, False),
    ],
)
def test_a_change_comes_from_a_page_of_the_console(headers: dict[str, str], is_taken: bool) -> None:
    client = logged_in(console_of(PAGES, public_url=PUBLIC), scheme="https")
    del client.headers["Sec-Fetch-Site"]
    answer = client.post("/change", data={"a": "b"}, headers=headers)
    assert (answer.status_code, answer.text[:9]) == ((200, "{'a': 'b'") if is_taken else (403, "A page of"))


def test_a_login_comes_from_a_page_of_the_console() -> None:
    """Else a page of another site could log a person in by a name of its own."""
    answer = stranger(console_of(PAGES)).post("/login", data={"token": TOKEN, "name": "Ada"})
    assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)


def test_nothing_changes_by_other_methods() -> None:
    client = logged_in(console_of(PAGES))
    for method in OTHER_METHODS:
        assert client.request(method, "/change").status_code == 405
    assert client.get("/change").status_code == 405


def test_a_link_of_another_site_is_followed_by_a_page_of_our_own() -> None:
    """The browser sends no cookie of SameSite=Strict with it, though the person is logged in."""
    client = stranger(console_of(PAGES))
    answer = client.get("/?slo=a&b=%22", headers={"Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/?slo=a&amp;b=%22">' in answer.text


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_makes_no_page_read_anything_for_a_person_whom_a_proxy_names(site: str) -> None:
    """As by an image whose address is a page that reads Kafka: a proxy would name the person for it, too."""
    client = stranger(console_of(PAGES, **PROXY), "10.1.2.3")
    assert client.get("/", headers={**NAMED, "Sec-Fetch-Site": "same-origin"}).text == "Bo"
    assert client.get("/", headers={**NAMED, "Sec-Fetch-Site": "none"}).text == "Bo"
    answer = client.get("/", headers={**NAMED, "Sec-Fetch-Site": site})
    assert 'http-equiv="refresh"' in answer.text


def test_four_pages_at_once_read_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is told to come again, and does not wait with the others."""
    fetcher = RecordFetcher(from_groups({"kafka": {"bootstrap_servers": "127.0.0.1:1"}}))
    monkeypatch.setattr(RecordFetcher, "_fetched", lambda *_: None)
    with ExitStack() as pages:
        for _ in range(4):
            assert fetcher.fetch("t", 0, 0) is None
            pages.enter_context(fetcher.places)
        with pytest.raises(Unreachable, match="load this one again"):
            fetcher.fetch("t", 0, 0)
    assert fetcher.fetch("t", 0, 0) is None


@pytest.mark.parametrize("path", ["/", "/login", "/broken", "/no-such-page", "/static/console.css", "/static/none"])
def test_every_response_has_the_headers(path: str) -> None:
    app = console_of(PAGES)
    for client in (stranger(app), logged_in(app)):
        headers = client.get(path).headers
        assert headers.get_list("content-security-policy") == [_POLICY]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cross-origin-opener-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        is_kept = path == "/static/console.css"
        assert headers.get_list("cache-control") == ["no-cache" if is_kept else "no-store"]
    refused = stranger(app).get(path, headers={"Host": "evil.example"}).headers
    assert (refused["content-security-policy"], refused["cache-control"]) == (_POLICY, "no-store")


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"a=" + b"b" * (MAX_BYTES - 2), "application/x-www-form-urlencoded", 200),
        (b"a=" + b"b" * (MAX_BYTES - 1), "application/x-www-form-urlencoded", 413),
        (b"&".join(b"a=b" for _ in range(65)), "application/x-www-form-urlencoded", 400),
        (b"a=\xff", "application/x-www-form-urlencoded", 400),
        (b"a=b", "multipart/form-data; boundary=a", 415),
        (b"a=b", "text/plain", 415),
        (b'{"a": "b"}', "application/json", 415),
    ],
)
def test_a_form_is_urlencoded_and_small(content: bytes, kind: str, status: int) -> None:
    client = logged_in(console_of(PAGES))
    assert client.post("/change", content=content, headers={"Content-Type": kind}).status_code == status

    def parts() -> Iterator[bytes]:
        yield from (content[place : place + 1_000] for place in range(0, len(content), 1_000))

    assert client.post("/change", content=parts(), headers={"Content-Type": kind}).status_code == status


def test_an_address_and_headers_are_small() -> None:
    """uvicorn's limit is for heads that come in parts."""
    client = logged_in(console_of(PAGES))
    assert client.get("/", headers={"X-Some": "a" * HEAD_BYTES}).status_code == 431
    assert client.get("/", params={"q": "a" * HEAD_BYTES}).status_code == 431
    assert client.get("/", params={"q": "a" * (HEAD_BYTES // 2)}).status_code == 200


def test_nothing_is_logged_that_an_event_said(capfd: pytest.CaptureFixture[str]) -> None:
    client = logged_in(console_of(PAGES))
    with capture_logs() as logs:
        answer = client.get(f"/broken?q={SECRET}")
    assert (answer.status_code, SECRET in answer.text) == (500, False)
    (line,) = logs
    assert (line["error"], line["at"].partition(":")[0]) == ("ValueError", "test_safety.py")
    assert SECRET not in repr(logs)
    captured = capfd.readouterr()
    assert SECRET not in captured.out + captured.err


def test_a_token_file_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    assert read_token(ConsoleSettings(token_file=file)) == TOKEN
    file.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_token(ConsoleSettings(token_file=file))


@pytest.mark.parametrize(
    "content", ["", "short", "a" * 19, "two words of some length", "caf\u00e9" * 10, "a" * 30 + "\n" + "b"]
)
def test_a_token_is_long_and_plain(content: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    file.chmod(stat.S_IRUSR)
    with pytest.raises(ConfigurationError, match="at least 20 printable"):
        read_token(ConsoleSettings(token_file=file))
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_token(ConsoleSettings(token_file=tmp_path / "missing"))


def test_a_token_is_new_at_each_start_on_files() -> None:
    first, second = (read_token(ConsoleSettings()) for _ in range(2))
    assert len(first) >= 32
    assert first != second


def test_a_mounted_secret_may_be_read_by_the_group_of_the_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes gives it mode 0440, and mounts it read-only; everybody may read it nowhere."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    file.chmod(0o440)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_token(ConsoleSettings(token_file=file))
    real = os.statvfs
    monkeypatch.setattr(
        os, "statvfs", lambda path: os.statvfs_result((*real(path)[:8], real(path).f_flag | os.ST_RDONLY, 255))
    )
    assert read_token(ConsoleSettings(token_file=file)) == TOKEN
    file.chmod(0o444)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_token(ConsoleSettings(token_file=file))


def test_a_restart_on_kafka_ends_no_session(tmp_path: Path) -> None:
    """The token is kept, by a file that only ragweir's user may read."""
    settings = ConsoleSettings(folder=tmp_path / "new" / "folder")
    token = kept_token(settings)
    file = settings.folder / "token"
    assert len(token) >= 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(settings.folder.stat().st_mode) == 0o700
    cookie = _cookie_of(Access(settings, token))
    assert Access(settings, kept_token(settings)).person(_request(cookie)) == "Ada"
    file.unlink()
    assert Access(settings, kept_token(settings)).person(_request(cookie)) is None
    assert kept_token(ConsoleSettings(folder=tmp_path / "other")) != token


def test_a_kept_token_is_trusted_if_nobody_else_can_have_put_it_there(tmp_path: Path) -> None:
    settings = ConsoleSettings(folder=tmp_path / "console")
    kept_token(settings)
    (settings.folder / "token").chmod(0o644)
    with pytest.raises(ConfigurationError, match="others may read the token"):
        kept_token(settings)
    (settings.folder / "token").unlink()
    settings.folder.chmod(0o777)
    with pytest.raises(ConfigurationError, match="every user of this machine may change"):
        kept_token(settings)
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"set console\.folder"):
        kept_token(ConsoleSettings(folder=tmp_path / "file" / "console"))


def test_no_log_has_a_token_that_is_kept(tmp_path: Path) -> None:
    kept, own = ConsoleSettings(folder=tmp_path), ConsoleSettings(folder=tmp_path, token_file=tmp_path / "t")
    assert kept_login(kept, TOKEN, is_seen_by_person=True) == f"/login#{TOKEN}"
    assert kept_login(kept, TOKEN, is_seen_by_person=False) == f"/login with the token in {tmp_path}/token"
    assert {kept_login(own, TOKEN, is_seen_by_person=each) for each in (True, False)} == {"/login"}


def test_a_template_escapes_all_that_it_shows() -> None:
    """No template has a way around the escaping, and none has a style or a handler of its own."""
    folder = Path(authentication.__file__).parent.parent
    templates = list((folder / "templates").rglob("*.html"))
    assert len(templates) > 3
    for template in templates:
        text = template.read_text(encoding="utf-8").lower()
        for way in ("|safe", "| safe", "autoescape", "style=", " onclick", " onload", "javascript:", "//"):
            assert way not in text, (template, way)
    makers = [module.name for module in folder.rglob("*.py") if "Markup" in module.read_text(encoding="utf-8")]
    assert makers == ["template_filters.py"], "one module makes HTML of texts; test_hostile_pages.py tries it"
