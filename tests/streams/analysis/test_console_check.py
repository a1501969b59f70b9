"""The check of the console by `ragweir doctor`."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from browsers import TOKEN

from ragweir.streams.analysis.checks import console
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed, CheckWarning
from ragweir.streams.console.application import application
from ragweir.streams.console.web_server import listen, served
from ragweir.streams.runtime.serving.health import Health, serve
from ragweir.streams.runtime.serving.server import serve_app
from ragweir.streams.services.console import PORT
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.settings import Settings
from ragweir.streams.settings.console import ConsoleSettings


def said(folder: Path, telemetry_port: int = 0, **own: Any) -> str:
    group = {"enabled": True, "folder": folder, "port": 0, **own}
    return console.console(CheckContext(Settings(console=group, telemetry={"port": telemetry_port})))


@contextmanager
def pages(public_url: str | None = None) -> Iterator[int]:
    """A console's pages, on a port of this machine."""
    own = ConsoleSettings(port=0, public_url=public_url)
    with listen(own) as (listening, _), served(application([], own, TOKEN), listening):
        yield listening.getsockname()[1]


@contextmanager
def proxied(target: int, host: str | None = None, status: str = "") -> Iterator[int]:
    """A reverse proxy to a port, which names a host, or the browser's if it is None; or one with its own answer."""

    def app(environ: dict[str, Any], start: Callable[[str, list[tuple[str, str]]], object]) -> list[bytes]:
        if status:
            start(status, [])
            return []
        with closing(HTTPConnection("127.0.0.1", target, timeout=30)) as connection:
            connection.request("GET", environ["PATH_INFO"], headers={"Host": host or environ["HTTP_HOST"]})
            answer = connection.getresponse()
            start(f"{answer.status} {answer.reason}", answer.getheaders())
            return [answer.read()]

    with serve_app("127.0.0.1", 0, app) as port:
        yield port


@contextmanager
def telemetry(ratio: float, lag: int = 0) -> Iterator[int]:
    """The telemetry of a console that runs; the value is `telemetry.port`."""
    own = telemetry_of("console", 0)
    own.set("ragweir_console_read_ratio", ratio)
    own.set("ragweir_lag", lag, "rag.evaluations", "0")
    own.set("ragweir_lag", lag, "rag.labels", "0")
    with serve(own.registry, Health(), "127.0.0.1", 0) as port:
        yield port - PORT


def test_a_folder_that_cannot_be_written_is_wrong(tmp_path: Path) -> None:
    assert "off" in console.console(CheckContext(Settings()))
    assert "does not run" in said(tmp_path / "new" / "folder")
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckFailed, match=r"console\.folder"):
        said(tmp_path / "file" / "folder")


@pytest.mark.slow
def test_how_far_it_has_read_is_said(tmp_path: Path) -> None:
    with telemetry(0.62) as port, pytest.raises(CheckWarning, match="62%"):
        said(tmp_path, port)
    with telemetry(1.0) as port:
        assert said(tmp_path, port).endswith("; it has read all evaluations")
    with telemetry(1.0, lag=617) as port:
        assert said(tmp_path, port).endswith("; it is 1,234 records behind")


@pytest.mark.slow
def test_pages_that_do_not_answer_are_wrong_where_it_runs(tmp_path: Path) -> None:
    with telemetry(1.0) as running:
        with pages() as port:
            assert f"its pages answer at 127.0.0.1:{port}; it has read all" in said(tmp_path, running, port=port)
            free = port
        with pytest.raises(CheckFailed, match="do not answer"):
            said(tmp_path, running, port=free)
        with proxied(0, status="200 OK") as port, pytest.raises(CheckFailed, match="another program answers"):
            said(tmp_path, running, port=port)
    assert "it does not run on this machine" in said(tmp_path, port=free)


@pytest.mark.slow
def test_a_proxy_that_passes_the_host_on_leads_to_the_pages(tmp_path: Path) -> None:
    with pages() as port, proxied(port) as before:
        url = f"http://127.0.0.1:{before}"
        assert f"people reach it at {url}" in said(tmp_path, port=port, public_url=url)


@pytest.mark.slow
def test_a_proxy_that_names_another_host_is_wrong(tmp_path: Path) -> None:
    """As nginx does without `proxy_set_header Host`: it names that of its upstream."""
    with (
        pages() as port,
        proxied(port, "console-upstream") as before,
        pytest.raises(CheckFailed, match="passes on another Host"),
    ):
        said(tmp_path, port=port, public_url=f"http://127.0.0.1:{before}")


@pytest.mark.slow
@pytest.mark.parametrize("status", ["302 Found", "401 Unauthorized", "403 Forbidden"])
def test_a_proxy_that_asks_who_comes_is_right(status: str, tmp_path: Path) -> None:
    with pages() as port, proxied(port, status=status) as before:
        assert "asks who comes" in said(tmp_path, port=port, public_url=f"http://127.0.0.1:{before}")


@pytest.mark.slow
@pytest.mark.parametrize(("status", "reason"), [("200 OK", "another program"), ("502 Bad Gateway", "the status 502")])
def test_a_public_url_that_leads_elsewhere_is_named(status: str, reason: str, tmp_path: Path) -> None:
    """A warning: people may reach it from their machines."""
    with pages() as port, proxied(port, status=status) as before:
        url = f"http://127.0.0.1:{before}"
        with pytest.raises(CheckWarning, match=reason):
            said(tmp_path, port=port, public_url=url)
    with pytest.raises(CheckWarning, match="refused"):
        said(tmp_path, public_url=url)


@pytest.mark.slow
def test_pages_behind_a_name_of_their_own_are_asked_by_that_name() -> None:
    """Where the console listens on an address of the network, which is no name of it."""
    with pages("https://ragweir.example.org") as port:
        status = console._status(f"http://127.0.0.1:{port}", "ragweir.example.org")
        assert status == 200
        assert console._status(f"http://127.0.0.1:{port}", "10.0.0.5") == 421
