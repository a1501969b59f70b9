"""A rolling upgrade: workers of two catalogue versions side by side, and what tells them apart afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import read_to_end
from faults import Service, Traffic, end_all, environment, eventually

from ragweir.metrics.catalogue import CATALOGUE_VERSION, Catalogue, everything
from ragweir.metrics.totals import Totals
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.local.kafka import LocalKafka
from ragweir.streams.settings import WindowSettings
from ragweir.streams.windowing import Windowing

NEXT = "next"
_UPGRADED = f"""
import ragweir.metrics.catalogue
ragweir.metrics.catalogue.CATALOGUE_VERSION = {NEXT!r}  # All that tells this release from ours.
from ragweir.streams.cli import main
main()
"""
OURS, THEIRS = ("-m", "ragweir.streams.cli"), ("-c", _UPGRADED)


@pytest.fixture
def services() -> Iterator[list[Service]]:
    started: list[Service] = []
    yield started
    end_all(started)


def test_a_rolling_upgrade_loses_and_doubles_nothing_and_mixed_windows_say_so(
    kafka: LocalKafka, prefix: str, tmp_path: Path, services: list[Service]
) -> None:
    """Slot after slot is stopped and started anew by another release, under traffic."""
    traffic = Traffic(kafka.bootstrap, prefix)

    def start(slot: int, release: tuple[str, ...]) -> Service:
        log = tmp_path / f"{len(services)}.log"
        services.append(Service([*release, "evaluate", "--slot", str(slot)], log, environment(traffic)))
        return services[-1]

    old = [start(slot, OURS) for slot in (0, 1)]
    eventually(lambda: sum(map(len, traffic.held().values())) == 4 and len(traffic.held()) == 2, "both hold some")
    traffic.publish(100)
    for slot in (0, 1):
        eventually(lambda: traffic.left() < 350, "some are settled")
        traffic.publish(100)
        assert old[slot].stop() == 0
        new = start(slot, THEIRS)
        eventually(lambda new=new: new.logged("partitions assigned"), "it works")
        traffic.publish(100)
    traffic.must_be_settled_exactly_once()

    made = [
        Evaluation.model_validate_json(each.value()) for each in read_to_end(kafka.bootstrap, f"{prefix}evaluations")
    ]
    assert {each.catalogue_version for each in made} == {CATALOGUE_VERSION, NEXT}
    windowing = Windowing(WindowSettings(sizes=("1h", "1d")), Totals(Catalogue(everything())))
    for each in made:
        windowing.add(each)
    days = [window for window in windowing.windows() if window.window == "1d"]
    assert any(set(window.catalogue_versions) == {CATALOGUE_VERSION, NEXT} for window in days)
    last = {each.source.partition: each for each in made if each.source}
    assert {each.catalogue_version for each in last.values()} == {NEXT}, "the old release went on"
