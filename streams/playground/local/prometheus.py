"""Starts a Prometheus and an Alertmanager on loopback and stops them again: for `ragweir demo` and the tests."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ragweir.errors import LocalServerError, NotInstalled
from ragweir.streams.playground.local.cache_folder import cached
from ragweir.streams.playground.local.node import LOOPBACK, free_port
from ragweir.streams.playground.process import LocalProcess, running

_PACKAGES: Final = ("prometheus", "prometheus-alertmanager")
# The libraries of the pages of Debian's Prometheus.
_PAGES: Final = (
    *(
        "libjs-bootstrap4",
        "libjs-d3",
        "libjs-eonasdan-bootstrap-datetimepicker",
        "libjs-jquery",
        "libjs-jquery-hotkeys",
    ),
    *("libjs-moment", "libjs-moment-timezone", "libjs-mustache", "libjs-popper.js", "libjs-rickshaw"),
)
_PROGRAMS: Final = {
    # Debian's name, and the project's own where that is another one.
    "prometheus": ("prometheus",),
    "promtool": ("promtool",),
    "alertmanager": ("prometheus-alertmanager", "alertmanager"),
    "amtool": ("amtool",),
}
_INSTALL: Final = f"(Debian, Ubuntu: apt-get install {' '.join(_PACKAGES)})"
# Debian's programs read their templates and pages from this folder. As they are unpacked elsewhere, the path in them is
# replaced by one of the same length, relative to the folder that they are run in.
_SHARED: Final = b"/usr/share/prometheus/"
_RELATIVE: Final = b"prometheus".ljust(len(_SHARED), b"/")
_FETCH_SECONDS: Final = 300
_START_SECONDS: Final = 60
_STOP_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class Programs:
    """The paths of the four programs, and the folder to run them in."""

    prometheus: Path
    promtool: Path
    alertmanager: Path
    amtool: Path
    home: Path


def programs(say: Callable[[str], None] = lambda _: None) -> Programs:
    """Find the programs on the PATH, or in the cache, for which Debian's packages are fetched the first time.

    The packages are only unpacked, which needs no root and starts no system service.

    Raises:
        NotInstalled: they are not installed, and there is no apt-get to fetch them with.
        LocalServerError: they could not be fetched.
    """
    installed = _among(None, Path("/"))
    if installed is not None:
        return installed

    def fill(scratch: Path) -> Path:
        missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]
        if missing:
            raise NotInstalled(
                f"Prometheus and Alertmanager are not installed, and cannot be fetched without {missing[0]} {_INSTALL}."
            )
        say("Fetching Prometheus and Alertmanager from Debian's packages (32 MB, once)")
        return _unpacked(scratch)

    folder = cached("prometheus-debian", fill)
    fetched = _among(str(folder / "usr" / "bin"), folder / "usr" / "share")
    if fetched is None:
        raise LocalServerError(f"{folder} does not hold all of {', '.join(_PROGRAMS)}; remove it and try again.")
    return fetched


def _among(path: str | None, home: Path) -> Programs | None:
    found = {
        program: Path(where)
        for program, names in _PROGRAMS.items()
        for where in [next(filter(None, (shutil.which(name, path=path) for name in names)), None)]
        if where
    }
    return Programs(**found, home=home) if found.keys() == _PROGRAMS.keys() else None


def _unpacked(scratch: Path) -> Path:
    lists, archives, root = (scratch / name for name in ("lists", "cache", "root"))
    for folder in (lists / "partial", archives / "archives" / "partial"):
        folder.mkdir(parents=True)
    # Other package lists than the system's, which may be missing or old and which only root can update. A sandbox user
    # could not write here.
    apt = ["apt-get", "-qq", "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={archives}"]
    apt += ["-o", "APT::Sandbox::User=root"]
    _fetch([*apt, "update"], scratch)
    _fetch([*apt, "download", *_PACKAGES, *_PAGES], scratch)
    for package in scratch.glob("*.deb"):
        _fetch(["dpkg-deb", "--extract", package.name, str(root)], scratch)
    # 200 MB that no page uses.
    shutil.rmtree(root / "usr" / "share" / "javascript" / "moment-timezone" / "data", ignore_errors=True)
    for program in (root / "usr" / "bin").iterdir():
        program.write_bytes(program.read_bytes().replace(_SHARED, _RELATIVE))
    return root


def _fetch(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise LocalServerError(f"{command[0]} did not fetch Prometheus in {_FETCH_SECONDS} s {_INSTALL}.") from error
    if done.returncode != 0:
        errors = [line.removeprefix("E: ") for line in done.stderr.splitlines() if line.startswith("E: ")]
        reason = errors[0].rstrip(".") if errors else done.stderr.strip() or f"status {done.returncode}"
        raise LocalServerError(f"{command[0]} could not fetch Prometheus: {reason} {_INSTALL}.")


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A running Prometheus or Alertmanager."""

    port: int

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def url(self) -> str:
        """The URL of its pages."""
        return f"http://{self.address}"

    def get(self, path: str, **query: str) -> Any:
        """Return the decoded answer of the HTTP API.

        Raises:
            OSError: if it does not answer, or with an error.
        """
        url = f"{self.url}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - always http, on loopback
            return json.load(answer)


@contextmanager
def local_prometheus(
    targets: Mapping[str, Sequence[str]],
    rules: Sequence[Path] = (),
    alertmanager: LocalServer | None = None,
    *,
    discovered: Mapping[str, str] = MappingProxyType({}),
    interval_ms: int = 1_000,
    port: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[LocalServer]:
    """Run a Prometheus for the length of a `with` block; its data are removed at the end.

    Args:
        targets: per job the addresses to scrape, such as `{"ragweir-aggregate": ["127.0.0.1:9564"]}`.
        rules: files of rules.
        alertmanager: gets the alerts.
        discovered: per job the URL of an HTTP service discovery, such as `/targets` of a supervisor.
        interval_ms: interval of scrapes and, by default, of the evaluation of rules.
        port: its port on loopback; a free one by default.
        say: is called with a sentence about what takes long.

    Raises:
        LocalServerError: it cannot be fetched or started here; the message says what to do.
    """
    interval = f"{interval_ms}ms"
    configuration = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "scrape_configs": [
            *(
                {"job_name": job, "static_configs": [{"targets": list(addresses)}]}
                for job, addresses in targets.items()
            ),
            *(
                {"job_name": job, "http_sd_configs": [{"url": url, "refresh_interval": interval}]}
                for job, url in discovered.items()
            ),
        ],
        "rule_files": [str(file.resolve()) for file in rules],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [each.address]}]} for each in [alertmanager] if each]
        },
    }
    found = programs(say)
    with run_server(
        "Prometheus",
        found.prometheus,
        found.home,
        configuration,
        port,
        "--storage.tsdb.path={folder}/data",
        # By default an alert is repeated each minute, which is late for an Alertmanager that has been restarted.
        f"--rules.alert.resend-delay={interval}",
    ) as server:
        yield server


@contextmanager
def local_alertmanager(
    webhook: str, *, port: int | None = None, say: Callable[[str], None] = lambda _: None
) -> Iterator[LocalServer]:
    """Run an Alertmanager for the length of a `with` block, which posts each alert to a webhook immediately.

    Args:
        webhook: the URL that alerts are posted to when they fire and when they are resolved.
        port: its port on loopback; a free one by default.
        say: is called with a sentence about what takes long.

    Raises:
        LocalServerError: it cannot be fetched or started here; the message says what to do.
    """
    configuration = {
        "route": {
            "receiver": "webhook",
            "group_by": ["..."],
            "group_wait": "0s",
            "group_interval": "1s",
            "repeat_interval": "1h",
        },
        "receivers": [{"name": "webhook", "webhook_configs": [{"url": webhook, "send_resolved": True}]}],
    }
    found = programs(say)
    with run_server(
        "Alertmanager",
        found.alertmanager,
        found.home,
        configuration,
        port,
        "--storage.path={folder}/data",
        "--cluster.listen-address=",  # No cluster.
    ) as server:
        yield server


@contextmanager
def run_server(
    name: str, program: Path, home: Path, configuration: Mapping[str, Any], port: int | None, *flags: str
) -> Iterator[LocalServer]:
    """Run a program of the Prometheus family in a temporary folder for the length of a `with` block."""
    server = LocalServer(port or free_port())
    with tempfile.TemporaryDirectory(prefix=f"ragweir-{name.lower()}-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        # JSON is YAML.
        (folder / "configuration.yml").write_text(json.dumps(configuration), encoding="utf-8")
        own = ["--config.file={folder}/configuration.yml", f"--web.listen-address={server.address}", "--log.level=warn"]
        command = [str(program), *(flag.format(folder=folder) for flag in (*own, *flags))]
        process = LocalProcess(command, folder / "log", folder=home, temporary=folder, stop_seconds=_STOP_SECONDS)

        def ready() -> bool:
            with urllib.request.urlopen(f"{server.url}/-/ready", timeout=1):  # noqa: S310 - http, on loopback
                return True

        with running(process):
            process.wait_until_ready(name, ready, _START_SECONDS)
            yield server
