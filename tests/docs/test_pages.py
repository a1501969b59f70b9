"""The guides and the README are followed word for word: their commands run and print what the pages show."""

import os
import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import QUICK_BROKER, coordinated
from pages import File, NotRun, Step, steps
from reader import _PORTS, KAFKA, Unlike, reading

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.playground.local.prometheus import programs

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]
_NOT_RUN_AT_MOST = 24
_BYTES_AT_MOST = 8 * 1024
_PROMETHEUS = ("promtool", "prometheus", "amtool", "alertmanager")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_a_page_can_be_followed_word_for_word(page: Path, tmp_path: Path) -> None:
    """Each command ends with status 0 and prints what the page shows; each block of Python runs."""
    planned = [step for step in steps(page) if not isinstance(step, NotRun)]
    if all(isinstance(step, File) for step in planned):
        pytest.skip("nothing to run")
    if failure := _failure(str(page.relative_to(ROOT)), planned, tmp_path / "reader"):
        pytest.fail(failure, pytrace=False)


def _failure(page: str, planned: Sequence[Step], folder: Path) -> str | None:
    """Follow a page; give the first place where it is not true, or None."""
    folder.mkdir()
    text = "\n".join(step.text for step in planned if not isinstance(step, NotRun))
    try:
        with ExitStack() as stack:
            bootstrap = None
            if KAFKA.search(text):
                bootstrap = stack.enter_context(local_kafka(properties=QUICK_BROKER)).bootstrap
                coordinated(bootstrap)
            reader = stack.enter_context(reading(page, folder, bootstrap, _free_range()))
            if any(name in text for name in _PROMETHEUS):
                found = programs()
                for program in (found.promtool, found.prometheus, found.amtool, found.alertmanager):
                    reader.link(program)
            for step in planned:
                reader.follow(step)
    except (Unlike, LocalServerError) as failure:
        return str(failure)
    return None


def test_few_fences_are_not_run() -> None:
    """Each fence that is not run has its reason, and there are few, since such a fence may be wrong."""
    found = [
        f"{page.relative_to(ROOT)}:{step.line}: {step.reason}"
        for page in PAGES
        for step in steps(page)
        if isinstance(step, NotRun)
    ]
    print(*found, sep="\n")
    assert len(found) <= _NOT_RUN_AT_MOST, "\n".join(found)


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: str(page.name))
def test_every_guide_has_something_to_do(page: Path) -> None:
    """A guide whose fences have another language than `console` or `python` would be tested by nothing."""
    assert any(not isinstance(step, File | NotRun) for step in steps(page)) or _is_placeholder(page)


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: str(page.name))
def test_a_guide_is_read_in_minutes(page: Path) -> None:
    assert page.stat().st_size <= _BYTES_AT_MOST


def _is_placeholder(page: Path) -> bool:
    return len(page.read_text(encoding="utf-8").splitlines()) < 6


def _free_range() -> int:
    """Find a port from which all ports that pages name are free; those of processes that run beside this are others."""
    first = 32_000 - 1_000 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 4 + 1)
    for base in random.SystemRandom().sample(range(first, first + 500, 10), 50):
        with ExitStack() as stack:
            try:
                for offset in (*_PORTS.values(), 1, 2, 3, 101, 301):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", base + offset))
            except OSError:
                continue
            return base
    raise AssertionError("no free ports")
