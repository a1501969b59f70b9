"""The demo's end: quality drops, the burn-rate alert reaches a webhook, quality returns, and the alert is resolved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ragweir.errors import DemoError
from ragweir.schemas.window import duration_s
from ragweir.streams.playground.demo.scrape import Means, counted, means
from ragweir.streams.playground.demo.services import targets
from ragweir.streams.playground.demo.traffic import DRILL_RATE, Drill
from ragweir.streams.playground.demo.webhook import ReceivedAlert, webhook
from ragweir.streams.playground.local.prometheus import LocalServer, local_alertmanager, local_prometheus
from ragweir.streams.settings import Settings
from ragweir.streams.slo.rules import FAST, duration, rules, written

SCALE = 0.02
"""An hour of the rules in 72 seconds: the page's short window is six seconds, six scrapes."""

_BAD = 0.5
"""The mean risk that a version has when its answers are bad, and has not when they are good."""
_PATIENCE_S = 90.0
_TURN_S = 0.05
_LOOK_S = 0.5
_STYLES = {"injected": "bold yellow", "FIRES": "bold red", "RESOLVED": "bold green"}


@dataclass(frozen=True, slots=True)
class Monitoring:
    """What watches the services: a running Prometheus and Alertmanager, and what the webhook has been told."""

    prometheus: LocalServer
    alertmanager: LocalServer
    told: Sequence[ReceivedAlert]


@contextmanager
def monitoring(settings: Settings, folder: Path) -> Iterator[Monitoring]:
    """Watch the services for the length of a `with` block, by the rules that `ragweir slo rules` writes.

    Args:
        settings: whose SLOs and services.
        folder: where the file of rules goes.
    """
    file = folder / "slo.yml"
    file.write_text(written(rules(settings.slo, SCALE)), encoding="utf-8")
    with (
        webhook() as (url, told),
        local_alertmanager(url) as alertmanager,
        local_prometheus(targets(settings), [file], alertmanager) as prometheus,
    ):
        yield Monitoring(prometheus, alertmanager, told)


def wait_until_counted(settings: Settings, events: int, check: Callable[[], None]) -> dict[str, int]:
    """Wait until aggregate has counted so many events of the SLO, so that none of them is taken for later traffic.

    Args:
        settings: whose SLO.
        events: how many have a value of its metric.
        check: raises when the services have ended.

    Returns:
        how many were good and bad.
    """
    deadline = time.monotonic() + _PATIENCE_S
    (address,) = targets(settings)["ragweir-aggregate"]
    while not (found := counted(address, settings.slo[0].name)) or sum(found.values()) < events:
        check()
        if time.monotonic() > deadline:
            raise DemoError(f"`ragweir aggregate` has not counted the SLO's {events} events in {_PATIENCE_S:.0f} s.")
        time.sleep(_TURN_S)
    return found


class AlertDrill:
    """Traffic whose quality drops and returns, and what the terminal shows of it: a line for each thing that happens.

    Args:
        settings: of the services.
        watch: what watches them.
        check: raises when they have ended.
        console: where lines go.
    """

    def __init__(self, settings: Settings, watch: Monitoring, check: Callable[[], None], console: Console) -> None:
        self._slo = settings.slo[0]
        self._window = settings.windows.sizes[0]
        (self._exporter,) = targets(settings)["ragweir-export"]
        self._watch = watch
        self._check = check
        self._console = console
        self._traffic = Drill(settings)
        self._began = time.monotonic()
        self._turned = self._began
        self._means = Means()
        """Of the last window that closed with nothing but this traffic."""
        self._since_s = time.time() + duration_s(self._window)
        self._look_at = 0.0
        self._shown = 0
        """How many of the webhook's alerts have been shown."""

    def run(self) -> None:
        """Show the alert fire and resolve.

        Raises:
            DemoError: if it does not, or the services end.
        """
        self._say("steady", f"{DRILL_RATE} sample answers a second, one of v1 to three of v2; all are grounded")
        self._go_on("good answers are seen", lambda: self._v2_is(bad=False) and self._share_is_known(), dropped=False)
        self._turn("injected", "a drop in quality: v2 now says what no context says")
        self._go_on(
            "the alert fires", lambda: FAST.alert in self._alerts("firing") and self._v2_is(bad=True), dropped=True
        )
        self._turn("recovery", "v2 is grounded again")
        self._go_on(
            "the alert is resolved",
            lambda: FAST.alert in self._alerts("resolved") and self._v2_is(bad=False),
            dropped=False,
        )
        if still_open := self._alerts("firing") - self._alerts("resolved"):
            self._say("", f"{', '.join(still_open)} looks at longer windows and is resolved later.")

    def linger(self) -> None:
        """Go on with good answers until interrupted."""
        while True:
            self._step(dropped=False)

    def _go_on(self, what: str, reached: Callable[[], bool], *, dropped: bool) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not reached():
            if time.monotonic() > deadline:
                raise DemoError(f"In {_PATIENCE_S:.0f} s it never came to this: {what}.")
            self._step(dropped=dropped)
            self._show_window()
        # An alert may have come since it was looked for, and it is why this phase ends.
        self._show_alerts()

    def _step(self, *, dropped: bool) -> None:
        self._traffic.send_due(dropped=dropped)
        self._check()
        self._show_alerts()
        time.sleep(_TURN_S)

    # What the phases wait for.

    def _share_is_known(self) -> bool:
        """Whether Prometheus has a share of bad events; it has none before it has scraped twice."""
        query = f'slo:ragweir_slo_bad:ratio_rate{duration(60 * FAST.long_m)}{{slo="{self._slo.name}"}} >= 0'
        return bool(self._watch.prometheus.get("/api/v1/query", query=query)["data"]["result"])

    def _v2_is(self, *, bad: bool) -> bool:
        mean = self._means.versions.get("v2")
        return mean is not None and (mean > _BAD) == bad

    def _alerts(self, status: str) -> set[str]:
        """The alerts that have been posted with this status."""
        return {told.alert for told in self._watch.told if told.status == status}

    # What is shown.

    def _turn(self, what: str, text: str) -> None:
        self._turned = time.monotonic()
        self._say(what, text)

    def _show_alerts(self) -> None:
        for told in self._watch.told[self._shown :]:
            self._shown += 1
            took = f"{told.at - self._turned:.1f} s after the first"
            if told.status == "firing":
                self._say("FIRES", f"{told.alert} ({told.severity}) at the webhook, {took} bad answer")
                self._say("", told.description)
            else:
                self._say("RESOLVED", f"{told.alert} ({told.severity}) at the webhook, {took} good answer")

    def _show_window(self) -> None:
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + _LOOK_S
        found = means(self._exporter, self._slo.metric, self._window)
        if found.end_s > max(self._means.end_s, self._since_s) and found.versions:
            self._means = found
            self._say("", f"{self._window} {found}")

    def _say(self, what: str, text: str) -> None:
        style = _STYLES.get(what, "bold")
        line = Text.assemble(f"{time.monotonic() - self._began:5.1f} s  ", (f"{what:<9}", style), f" {text}")
        self._console.print(line, soft_wrap=True)
