"""From a worse answer to somebody's telephone: real telemetry, a real Prometheus, a real Alertmanager, a webhook."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ragweir.errors import LocalServerError
from ragweir.streams.analysis.slo import alert_rules as slo_rules
from ragweir.streams.analysis.slo import burns
from ragweir.streams.playground.demo.alerting import webhook
from ragweir.streams.playground.local.prometheus import LocalServer, local_alertmanager, local_prometheus
from ragweir.streams.runtime.serving.health import Health, serve
from ragweir.streams.runtime.serving.instruments import KnownLabels
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.settings import Slo

pytestmark = pytest.mark.usefixtures("tools")
STEADY, QUIET = (Slo(name=name, metric="context_support", at_least=0.5, objective=0.95) for name in ("steady", "quiet"))
SCALE = 0.02
"""An hour in 72 seconds: the page's short window is six seconds, six scrapes."""
_PATIENCE_S = 90.0


def share(prometheus: LocalServer, slo: Slo, window: str) -> float | None:
    """The recorded share of bad events; None while Prometheus has none."""
    found = prometheus.get("/api/v1/query", query=f'slo:ragweir_slo_bad:ratio_rate{window}{{slo="{slo.name}"}} >= 0')
    return next((float(each["value"][1]) for each in found["data"]["result"]), None)


def test_a_quality_drop_alerts_and_recovery_resolves_it_while_a_blip_raises_nothing(tmp_path: Path) -> None:
    """Answers that become bad reach the webhook as a page, which is resolved once they are good again.

    Beside them, five bad answers of a tenant with no more than five burn twenty times too fast over both windows of
    the page: only the least number of bad events keeps them silent.
    """
    rules = tmp_path / "slo.yml"
    rules.write_text(slo_rules.written(slo_rules.rules([STEADY, QUIET], SCALE)))
    telemetry = telemetry_of("aggregate", 0, KnownLabels(slos=[STEADY.name, QUIET.name]))

    def count(slo: Slo, outcome: str, number: int) -> None:
        telemetry.count("ragweir_slo_events_total", number, slo.name, outcome)

    def traffic(outcome: str, until: Callable[[], object], what: str) -> None:
        """Twenty answers a second until something has come to pass."""
        deadline = time.monotonic() + _PATIENCE_S
        while not until():
            if time.monotonic() > deadline:
                pytest.fail(f"in {_PATIENCE_S:.0f} s it never came to this: {what}; the webhook has {received}")
            count(STEADY, outcome, 2)
            time.sleep(0.1)

    def seen(prometheus: LocalServer, window: str) -> bool:
        return (share(prometheus, QUIET, window) or 0) > burns.FAST.threshold(QUIET.objective)

    def paged(status: str) -> bool:
        page = STEADY.name, burns.FAST.alert, status
        return any((each.slo, each.alert, each.status) == page for each in received)

    try:
        with (
            webhook() as (url, received),
            serve(telemetry.registry, Health(), "127.0.0.1", 0) as port,
            local_alertmanager(url) as alertmanager,
            local_prometheus({"ragweir": [f"127.0.0.1:{port}"]}, [rules], alertmanager) as prometheus,
        ):
            traffic("good", lambda: share(prometheus, STEADY, "5m") == 0, "good answers are seen")
            count(QUIET, "bad", 5)
            traffic("good", lambda: seen(prometheus, "5m") and seen(prometheus, "1h"), "the blip is seen")
            assert not received
            traffic("bad", lambda: paged("firing"), "the page fires")
            assert not paged("resolved")
            traffic("good", lambda: paged("resolved"), "the page is resolved")
            assert {each.slo for each in received} == {STEADY.name}
    except LocalServerError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.mark.heavy
def test_what_was_counted_before_the_first_scrape_counts_from_when_it_was_counted(tmp_path: Path) -> None:
    """A worker's first events are seen although its counters are born with them; old ones are not taken for new.

    Prometheus learns from the worker itself, by the _created series, that the counters are younger than the long window
    and older than the short one.
    """
    rules = tmp_path / "slo.yml"
    rules.write_text(slo_rules.written(slo_rules.rules([STEADY], SCALE)))
    telemetry = telemetry_of("aggregate", 0, KnownLabels(slos=[STEADY.name]))
    telemetry.count("ragweir_slo_events_total", 398, STEADY.name, "bad")
    time.sleep(60 * burns.FAST.short_m * SCALE + 1)

    def bad(prometheus: LocalServer, window: str) -> list[float]:
        """The most that was recorded of bad events in the last such window."""
        query = f'max_over_time(slo_outcome:ragweir_slo_events:increase{window}{{outcome="bad"}}[5m])'
        return [float(each["value"][1]) for each in prometheus.get("/api/v1/query", query=query)["data"]["result"]]

    try:
        with (
            serve(telemetry.registry, Health(), "127.0.0.1", 0) as port,
            local_prometheus({"ragweir": [f"127.0.0.1:{port}"]}, [rules]) as prometheus,
        ):
            deadline = time.monotonic() + _PATIENCE_S
            while not bad(prometheus, "5m") and time.monotonic() < deadline:  # It takes two scrapes.
                time.sleep(0.2)
            assert bad(prometheus, "5m") == [0]
            assert bad(prometheus, "1h") == [398]
    except LocalServerError as error:
        pytest.fail(str(error), pytrace=False)
