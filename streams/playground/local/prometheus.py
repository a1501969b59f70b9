"""Starts a Prometheus and an Alertmanager on loopback and stops them again: for `ragweir demo` and the tests."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local.node import LOOPBACK, free_port

_PACKAGES: Final = ("prometheus", "prometheus-alertmanager")
# What the pages of Debian's Prometheus are drawn with.
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
# Debian's builds read their templates and pages from here, and unpacked elsewhere they would not find them. This many
# bytes of a path relative to the folder that they are run in stand in for it.
_SHARED: Final = b"/usr/share/prometheus/"
_RELATIVE: Final = b"prometheus".ljust(len(_SHARED), b"/")
_FETCH_SECONDS: Final = 300
_START_SECONDS: Final = 60
_STOP_SECONDS: Final = 10
_LAST_LINES: Final = 15
# Runs beside a program and reads a pipe that only we hold open: when we die, however we die, the pipe ends.
_WATCHDOG: Final = 'read -r _; kill -9 "$1"; rm -rf -- "$2"'


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the four programs are, and the folder to run them in."""

    prometheus: Path
    promtool: Path
    alertmanager: Path
    amtool: Path
    home: Path


def programs(say: Callable[[str], None] = lambda _: None) -> Programs:
    """Find the programs: on the PATH, or in the cache, which Debian's packages fill the first time.

    The packages are only unpacked, so that it takes no root and starts no system service. Any number of processes may
    ask at once.

    Raises:
        LocalServerError: they are neither installed nor to be fetched.
    """
    installed = _among(None, Path("/"))
    if installed is not None:
        return installed
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ragweir"
    folder = cache / "prometheus-debian"
    if not folder.exists():
        missing = [tool for tool in ("apt-get", "dpkg-deb") if shutil.which(tool) is None]
        if missing:
            raise LocalServerError(
                f"Prometheus and Alertmanager are not installed, and cannot be fetched without {missing[0]} {_INSTALL}."
            )
        cache.mkdir(parents=True, exist_ok=True)
        # The lock saves a second download; the rename keeps half a download unseen.
        with (cache / "fetch.lock").open("w") as lock, tempfile.TemporaryDirectory(dir=cache) as scratch:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                say("Fetching Prometheus and Alertmanager from Debian's packages (32 MB, once)")
                _unpacked(Path(scratch)).rename(folder)
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
    # Lists of its own: the system's may be missing or old, and to renew those takes root. A sandbox user could not
    # write here.
    apt = ["apt-get", "-qq", "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={archives}"]
    apt += ["-o", "APT::Sandbox::User=root"]
    _fetch([*apt, "update"], scratch)
    _fetch([*apt, "download", *_PACKAGES, *_PAGES], scratch)
    for package in scratch.glob("*.deb"):
        _fetch(["dpkg-deb", "--extract", package.name, str(root)], scratch)
    # 200 MB that no page needs.
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
        """Host and port, as other configurations name it."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://{self.address}"

    def get(self, path: str, **query: str) -> Any:
        """What the HTTP API answers, decoded.

        Raises:
            OSError: if it does not, or refuses.
        """
        asked = f"{self.url}{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - always http, on loopback
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
    """Run a Prometheus for the length of a `with` block; its data are gone at the end.

    Args:
        targets: per job the addresses to scrape, such as `{"ragweir-aggregate": ["127.0.0.1:9564"]}`.
        rules: files of rules.
        alertmanager: who is told of alerts.
        discovered: per job the URL that tells what to scrape, as `/targets` of a supervisor does.
        interval_ms: how often it scrapes and, where a group of rules says nothing else, evaluates.
        port: where it listens on loopback; a free port by default.
        say: is told in a sentence what takes long.

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
    with _serving(
        "Prometheus",
        found.prometheus,
        found.home,
        configuration,
        port,
        "--storage.tsdb.path={folder}/data",
        # Else an alert that goes on is repeated each minute only, and an Alertmanager that was away learns late.
        f"--rules.alert.resend-delay={interval}",
    ) as server:
        yield server


@contextmanager
def local_alertmanager(
    webhook: str, *, port: int | None = None, say: Callable[[str], None] = lambda _: None
) -> Iterator[LocalServer]:
    """Run an Alertmanager for the length of a `with` block, which tells `webhook` of each alert at once.

    Args:
        webhook: the URL that alerts are posted to, when they fire and when they are resolved.
        port: where it listens on loopback; a free port by default.
        say: is told in a sentence what takes long.

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
    with _serving(
        "Alertmanager",
        found.alertmanager,
        found.home,
        configuration,
        port,
        "--storage.path={folder}/data",
        "--cluster.listen-address=",  # One alone needs no port for others.
    ) as server:
        yield server


@contextmanager
def _serving(
    name: str, program: Path, home: Path, configuration: Mapping[str, Any], port: int | None, *flags: str
) -> Iterator[LocalServer]:
    """Run a program of the Prometheus family in a folder of its own, until the block ends or we do."""
    server = LocalServer(port or free_port())
    with tempfile.TemporaryDirectory(prefix=f"ragweir-{name.lower()}-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        # JSON is YAML.
        (folder / "configuration.yml").write_text(json.dumps(configuration), encoding="utf-8")
        own = ["--config.file={folder}/configuration.yml", f"--web.listen-address={server.address}", "--log.level=warn"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [program, *(flag.format(folder=folder) for flag in (*own, *flags))],
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in a terminal is for us alone.
            )
        watchdog = subprocess.Popen(
            ["sh", "-c", _WATCHDOG, "sh", str(process.pid), place],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait(name, server, process, folder / "log")
            yield server
        finally:
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            watchdog.kill()  # Before its pipe is closed: it must not act on a process id that is free again.
            watchdog.communicate()


def _wait(name: str, server: LocalServer, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
            raise LocalServerError(f"{name} died on its way up. It logged last:\n" + "\n".join(lines))
        try:
            with urllib.request.urlopen(f"{server.url}/-/ready", timeout=1):  # noqa: S310 - always http, on loopback
                return
        except OSError:
            time.sleep(0.05)  # Not yet.
    raise LocalServerError(f"{name} runs but has not answered on {server.address} for {_START_SECONDS} s.")
