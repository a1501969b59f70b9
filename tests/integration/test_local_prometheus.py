"""A local Prometheus and Alertmanager: fetched without root, started, told apart from broken, and gone with us."""

import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local import prometheus
from ragweir.streams.playground.local.prometheus import local_prometheus, programs
from ragweir.streams.playground.process import LocalProcess, running

HOLD = """
import sys, time
from ragweir.streams.playground.local.prometheus import local_alertmanager, local_prometheus
with local_alertmanager("http://127.0.0.1:1/") as alertmanager, local_prometheus({}, [], alertmanager) as server:
    print(alertmanager.port, server.port, flush=True)
    time.sleep(600)
"""
APT = """case "$*" in *download*)
    echo call >> "$CALLS"; for p in prometheus alert; do : > $p.deb; done;;
esac"""
DPKG = """mkdir -p "$3/usr/bin" && cd "$3/usr/bin"
for p in prometheus promtool prometheus-alertmanager amtool; do
    echo 'reads /usr/share/prometheus/web' > $p; chmod +x $p
done"""


def install(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    program.chmod(0o755)


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without programs or anything fetched; what is put in this folder is on its PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    return folder


@pytest.mark.usefixtures("tools")
def test_sigkill_leaves_neither_program_nor_data() -> None:
    """When our process is killed outright, Prometheus and Alertmanager go too, with their folders."""
    holder = subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert holder.stdout is not None
    ports = holder.stdout.readline().split()
    running = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    pids = [pid for pid in running if set(_listens(pid)) & set(ports)]
    assert len(pids) == 2, "the machine's programs, found by the ports on their command lines"
    folders = [Path(word.partition("=")[2]).parent for pid in pids for word in _words(pid) if "config.file=" in word]
    assert all(folder.exists() for folder in folders)
    holder.kill()
    holder.communicate()
    give_up = time.monotonic() + 30
    while (any(_words(pid) for pid in pids) or any(map(Path.exists, folders))) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not any(_words(pid) for pid in pids)
    assert not any(folder.exists() for folder in folders)


def _words(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def _listens(pid: int) -> list[str]:
    return [word.rpartition(":")[2] for word in _words(pid) if word.startswith("--web.listen-address=")]


@pytest.mark.usefixtures("tools")
def test_a_program_that_dies_is_quoted(tmp_path: Path) -> None:
    """A Prometheus that cannot start ends the wait at once, with its last log lines in the error."""
    rules = tmp_path / "rules.yml"
    rules.write_text("groups: none")
    refused = pytest.raises(LocalServerError, match=r"(?s)Prometheus ended before it was ready.*rules\.yml")
    with refused, local_prometheus({}, [rules]):
        pass


def test_a_program_that_never_answers_is_named(tmp_path: Path) -> None:
    """A refused connection is waited out, and the error says so without a traceback of the connection."""
    refused = pytest.raises(LocalServerError, match=r"^it runs but is not ready after 0 s\.$")
    with running(LocalProcess(["sleep", "60"], tmp_path / "log", folder=tmp_path)) as process, refused:
        process.wait_until_ready("it", partial(socket.create_connection, ("127.0.0.1", 1)), 0.2)


def test_programs_on_the_path_are_used(bare_path: Path) -> None:
    """Installed programs are taken as they are, whether Alertmanager has Debian's name or its own, and none fetched."""
    for name in ("prometheus", "promtool", "alertmanager", "amtool"):
        install(bare_path, name, "exit 0")
    assert programs().alertmanager == bare_path / "alertmanager"
    assert not (bare_path.parent / "cache").exists()


@pytest.mark.parametrize("tools", [(), ("apt-get",)], ids=["no apt-get", "no dpkg-deb"])
def test_what_is_missing_is_said_in_one_line(bare_path: Path, tools: tuple[str, ...]) -> None:
    """Where Debian's packages cannot be fetched, the error is one line that ends with what to install."""
    for name in tools:
        install(bare_path, name, "exit 0")
    with pytest.raises(LocalServerError) as caught:
        programs()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("(Debian, Ubuntu: apt-get install prometheus prometheus-alertmanager).")


def test_a_failed_fetch_says_why_and_leaves_nothing(bare_path: Path, tmp_path: Path) -> None:
    """apt-get's error is quoted, and the cache holds no half-filled folder that a next run would trust."""
    install(bare_path, "apt-get", "echo 'W: Slow.' >&2; echo 'E: Failed to fetch lists.' >&2; exit 100")
    install(bare_path, "dpkg-deb", "exit 0")
    with pytest.raises(LocalServerError, match=r"^apt-get could not fetch Prometheus: Failed to fetch lists "):
        programs()
    assert [entry.name for entry in (tmp_path / "cache" / "ragweir").iterdir()] == ["fetch.lock"]


def test_processes_that_fetch_at_once_download_once(bare_path: Path, tmp_path: Path) -> None:
    """Four askers get the same programs from one download, which look for their pages in the folder they are run in."""
    install(bare_path, "apt-get", APT)
    install(bare_path, "dpkg-deb", DPKG)
    with ThreadPoolExecutor(4) as askers:
        (found,) = set(askers.map(lambda _: programs(), range(4)))
    assert (tmp_path / "calls").read_text() == "call\n"
    assert found.prometheus.read_text() == "reads prometheus////////////web\n"
    assert len(prometheus._SHARED) == len(prometheus._RELATIVE)
    assert found.home == found.prometheus.parents[1] / "share"
