"""The kernel's modules use only those of floors below, and on one floor none that uses them."""

import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "kernel" / "src"
FLOORS = ("lib", "counts", "wording", "tokens", "tables")
"""From the top: a folder, or a file that is a floor by itself."""
MAX_LINES = 400
_COMMENT = re.compile(r"//.*")
_USE = re.compile(r"\bcrate::(\w+)(?:::(\w+))?")
_UNREAD = re.compile(r"\bcrate::\{|\bsuper::|\bself::\w+::")
"""Paths that `_USE` does not resolve."""


def uses(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the modules that each module uses, both as `floor` or `floor/module`."""
    found = {}
    for name, text in sources.items():
        code = _COMMENT.sub("", text)
        paths = [(floor, f"{floor}/{module}") for floor, module in _USE.findall(code)]
        found[name] = {path if path in sources else floor for floor, path in paths} - {name}
    return found


def upward(used: Mapping[str, set[str]]) -> list[str]:
    """Return the uses of a floor that is not below, apart from modules of the same one."""
    level = {floor: number for number, floor in enumerate(FLOORS)}
    floors = {name: level[name.split("/")[0]] for name in used}
    pairs = [(name, other) for name, others in used.items() for other in sorted(others)]
    return [f"{name} uses {other}" for name, other in pairs if floors[other] < floors[name]]


def circle(used: Mapping[str, set[str]]) -> list[str]:
    """Return the modules of one circle, or none."""
    try:
        TopologicalSorter(used).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def kernel_sources() -> dict[str, str]:
    """Return the text of each module, but of the files that declare the modules of a floor."""
    paths = [path for path in SOURCES.rglob("*.rs") if path.name != "mod.rs"]
    return {path.relative_to(SOURCES).with_suffix("").as_posix(): path.read_text(encoding="utf-8") for path in paths}


def test_modules_use_only_what_is_below() -> None:
    used = uses(kernel_sources())
    assert {"tokens/words", "counts/record"} <= used["counts/event"]
    assert upward(used) == []
    assert circle(used) == []


def test_every_path_is_one_that_the_test_resolves() -> None:
    sources = kernel_sources()
    assert {other for others in uses(sources).values() for other in others} <= set(sources)
    others = {name: _UNREAD.findall(_COMMENT.sub("", text)) for name, text in sources.items() if name != "lib"}
    assert {name: found for name, found in others.items() if found} == {}
    for path in SOURCES.rglob("mod.rs"):
        lines = _COMMENT.sub("", path.read_text(encoding="utf-8")).split("\n")
        assert [line for line in lines if line and not re.fullmatch(r"(pub )?mod \w+;", line)] == [], path


def test_files_are_short() -> None:
    assert {name: text.count("\n") for name, text in kernel_sources().items() if text.count("\n") > MAX_LINES} == {}


@pytest.mark.parametrize(
    ("changed", "found_upward", "has_circle"),
    [
        ({}, [], False),
        ({"tokens/text": "use crate::counts::event::Event;"}, ["tokens/text uses counts/event"], True),
        ({"tables": "fn f() { crate::tokens::text::g() }"}, ["tables uses tokens/text"], True),
        ({"counts/runs": "use crate::counts::event::{self, Event};"}, [], True),
        ({"tokens/text": "// crate::counts::event is above"}, [], False),
    ],
)
def test_the_check_finds_what_it_forbids(changed: dict[str, str], found_upward: list[str], has_circle: bool) -> None:
    sources = {
        "lib": "use crate::counts::event::Event;",
        "counts/event": "use crate::counts::runs::Runs;\nuse crate::tokens::text::Text;",
        "counts/runs": "use crate::tokens::text::Text;",
        "tokens/text": "use crate::tables::*;",
        "tables": "",
    }
    used = uses(sources | changed)
    assert upward(used) == found_upward
    assert bool(circle(used)) == has_circle
