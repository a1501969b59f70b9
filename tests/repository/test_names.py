"""Names: one class has a name, and a module's name stands in two rooms only where both are of one concept."""

import re
from collections import Counter, defaultdict

import pytest
from commands import ROOT

PACKAGES = ("ragweir", "schemas", "metrics", "streams", "bench", "chaos", "tools", "examples")
PRODUCT = PACKAGES[:4]
SAME_CLASSES = {
    "_Words": "one stand-in for a model of embeddings, in programs of three environments",
}
CONCEPTS = frozenset(
    (
        *("agent", "instruments", "from_settings", "parts", "service", "services"),  # of each service
        *("client", "decoder", "server", "ledger", "overlap"),  # of Kafka, registry, judge; of each format; ...
        *("blame", "compare", "console", "demo", "explain", "publish", "registry_records", "routing", "runs", "story"),
        *("texts", "dead_letter", "events", "feedback", "judge", "kafka", "labels", "registry", "telemetry", "topics"),
        *("traces", "windows"),
    )
)
"""Names of modules that stand in several rooms, each for one concept: its settings, its records, its service, its
command, its screen, its check."""


@pytest.mark.slow
def test_no_two_classes_share_a_name() -> None:
    """Whoever searches for a class finds one; those in the table are the same thing where no import may lead."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in (each for package in PACKAGES for each in (ROOT / package).rglob("*.py")):
        if ".venv" not in file.parts and not any(parent.is_symlink() for parent in file.parents):
            for name in re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
                places[name].append(file.relative_to(ROOT).as_posix())
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if name not in SAME_CLASSES} == {}
    assert SAME_CLASSES.keys() <= twice.keys()


def test_a_module_name_stands_twice_for_one_concept_only() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for file in (each for package in PRODUCT for each in (ROOT / package).rglob("*.py")):
        if not file.stem.startswith("__") and not any(parent.is_symlink() for parent in file.parents):
            places[file.stem].append(file.relative_to(ROOT).as_posix())
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert {name: found for name, found in twice.items() if name not in CONCEPTS} == {}
    assert twice.keys() >= CONCEPTS


def test_no_two_files_of_tests_share_a_name() -> None:
    """pytest cannot collect them together, as the folders of tests are no packages."""
    names = Counter(file.name for file in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, number in names.items() if number > 1] == []
