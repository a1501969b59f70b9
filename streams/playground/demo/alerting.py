"""The demo's end: quality drops, the burn-rate alert reaches a webhook, quality returns, and the alert is resolved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table
from rich.text import Text

from ragweir.errors import DemoError
from ragweir.schemas.window import duration_s
from ragweir.streams.analysis.slo.alert_rules import rules, written
from ragweir.streams.analysis.slo.burns import FAST, duration
from ragweir.streams.analysis.slo.linked_rules import link_rules
from ragweir.streams.playground.demo.drill_causes import DrillCauses
from ragweir.streams.playground.demo.picture import Moment
from ragweir.streams.playground.demo.sample_traffic import Encode, PacedPublisher, Sent, as_event
from ragweir.streams.playground.demo.samples import drill
from ragweir.streams.playground.demo.scrape import Means, means
from ragweir.streams.playground.demo.services import targets
from ragweir.streams.playground.local.prometheus import LocalServer, local_alertmanager, local_prometheus
from ragweir.streams.playground.process import wait_until
from ragweir.streams.playground.serving import Reply, Request, serving
from ragweir.streams.runtime.kafka.blocking_publisher import BlockingPublisher
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.terminal import Terminal
from ragweir.streams.settings import Settings

SCALE = 0.02
"""The factor of the rules' durations: an hour is 72 s, and the page's short window is 6 s, six scrapes."""

_BAD = 0.5
"""The mean risk that separates bad answers of a version from good ones."""
_MAX_WAIT_SECONDS = 90.0
_RATE = 20
"""Answers a second."""
_SCRAPE_SECONDS = 0.5
_STYLES = {"injected": "bold yellow", "FIRES": "bold red", "RESOLVED": "bold green"}


@dataclass(frozen=True, slots=True)
class ReceivedAlert:
    """One alert of one post."""

    at: float
    """The time of the post, on the monotonic clock."""
    alert: str
    slo: str
    severity: str
    status: str
    """`firing` or `resolved`."""
    description: str
    console_url: str | None = None
    """The link to its bad answers; None without a console."""


@contextmanager
def webhook() -> Iterator[tuple[str, list[ReceivedAlert]]]:
    """Listen for the length of a `with` block, which gets the URL to post to, and a list that grows with each alert."""
    received: list[ReceivedAlert] = []

    def receive(request: Request) -> Reply:
        now = machine.monotonic()
        for alert in json.loads(request.body)["alerts"]:
            labels = alert["labels"]
            named = labels["alertname"], labels["slo"], labels["severity"]
            texts = alert["annotations"]
            received.append(ReceivedAlert(now, *named, alert["status"], texts["description"], texts.get("console_url")))
        return Reply(200, b"{}")

    with serving(receive) as server:
        yield f"{server.url}/", received


@dataclass(frozen=True, slots=True)
class Monitoring:
    """A running Prometheus and Alertmanager, and the alerts that the webhook has received."""

    prometheus: LocalServer
    alertmanager: LocalServer
    received: Sequence[ReceivedAlert]


@contextmanager
def monitoring(settings: Settings, folder: Path) -> Iterator[Monitoring]:
    """Monitor the services for the length of a `with` block, by the rules that `ragweir slo rules` writes."""
    file = folder / "slo.yml"
    content = rules(settings.slo, SCALE)
    link_rules(content, settings.slo, settings.console.public_url, SCALE)
    file.write_text(written(content), encoding="utf-8")
    with (
        webhook() as (url, received),
        local_alertmanager(url) as alertmanager,
        local_prometheus(targets(settings), [file], alertmanager) as prometheus,
    ):
        yield Monitoring(prometheus, alertmanager, received)


class AlertDrill:
    """Sends traffic whose quality drops and returns, and prints a line for each window, phase and alert."""

    def __init__(
        self,
        settings: Settings,
        publisher: BlockingPublisher,
        monitoring: Monitoring,
        check: Callable[[], None],
        terminal: Terminal,
        encode: Encode = as_event,
    ) -> None:
        self._encode = encode
        self._slo = settings.slo[0]
        self._causes = DrillCauses(settings)
        self._window = settings.windows.sizes[0]
        (self._exporter,) = targets(settings)["ragweir-export"]
        self._monitoring = monitoring
        self._check = check
        self._terminal = terminal
        self._dropped = False
        self.moments = [Moment(machine.time(), "good answers")]
        """The moments of the incident so far, for its picture."""
        self._traffic = PacedPublisher(publisher, self._records, 1 / _RATE)
        self._began = machine.monotonic()
        self._turned = self._began
        self._means = Means()
        """The means of the last window that closed and began after this traffic."""
        self._first_end_s = machine.time() + duration_s(self._window)
        self._scrape_at = 0.0
        self._shown = 0
        """The number of the webhook's alerts that have been shown."""

    def run(self) -> None:
        """Drop the quality until the alert fires, and restore it until the alert is resolved.

        Raises:
            DemoError: if that takes too long, or the services end.
        """
        self._say("steady", f"{_RATE} sample answers a second, a quarter of v1; all are grounded")
        self._send_until(
            "good answers are seen", lambda: self._v2_is(bad=False) and self._share_is_known(), dropped=False
        )
        dropped_at = machine.now()
        self._turn("injected", "a drop: the answers of v2 are not grounded any more, nor are those with one document")
        self._moment("v2 gets worse")
        self._send_until(
            "the alert fires", lambda: FAST.alert in self._alerts("firing") and self._v2_is(bad=True), dropped=True
        )
        self._send_until("blame names v2 and the document", lambda: self._causes.are_named(dropped_at), dropped=True)
        self._show_causes()
        self._turn("recovery", "v2 is grounded again")
        self._moment("v2 is grounded again")
        self._send_until(
            "the alert is resolved",
            lambda: FAST.alert in self._alerts("resolved") and self._v2_is(bad=False),
            dropped=False,
        )
        if still_open := self._alerts("firing") - self._alerts("resolved"):
            self._say("", f"{', '.join(still_open)} has longer windows and is resolved later.")

    def _records(self, number: int) -> Sequence[Sent]:
        return self._encode(drill(number, machine.now(), dropped=self._dropped))

    def _send_until(self, what: str, reached: Callable[[], bool], *, dropped: bool) -> None:
        self._dropped = dropped

        def step() -> None:
            self.step()
            self._show_window()

        late = DemoError(f"In {_MAX_WAIT_SECONDS:.0f} s this did not happen: {what}.")
        wait_until(reached, step, _MAX_WAIT_SECONDS, late)
        # The alert that ends the phase may have come after those that were shown.
        self._show_alerts()

    def step(self) -> None:
        """Send the answers that are due, and show new alerts."""
        self._traffic.send_due()
        self._check()
        self._show_alerts()

    def _share_is_known(self) -> bool:
        """Return true if Prometheus has a share of bad events, for which it needs two scrapes."""
        query = f'slo:ragweir_slo_bad:ratio_rate{duration(60 * FAST.long_m)}{{slo="{self._slo.name}"}} >= 0'
        return bool(self._monitoring.prometheus.get("/api/v1/query", query=query)["data"]["result"])

    def _v2_is(self, *, bad: bool) -> bool:
        mean = self._means.versions.get("v2")
        return mean is not None and (mean > _BAD) == bad

    def _alerts(self, status: str) -> set[str]:
        """Return the names of the alerts that have been posted with this status."""
        return {alert.alert for alert in self._monitoring.received if alert.status == status}

    def _moment(self, name: str) -> None:
        self.moments.append(Moment(machine.time(), name))

    def _turn(self, what: str, text: str) -> None:
        self._turned = machine.monotonic()
        self._say(what, text)

    def _show_alerts(self) -> None:
        for alert in self._monitoring.received[self._shown :]:
            self._shown += 1
            took = f"{alert.at - self._turned:.1f} s after the first"
            if alert.status == "firing":
                self._say("FIRES", f"{alert.alert} ({alert.severity}), {took} bad answer")
                self._say("", alert.description)
                if alert.console_url:
                    # A line of its own, which no table cuts.
                    self._terminal.say(f"its causes: {alert.console_url}")
                self._moment(f"{alert.severity} fires")
            else:
                self._say("RESOLVED", f"{alert.alert} ({alert.severity}), {took} good answer")
                self._moment(f"{alert.severity} resolved")

    def _show_causes(self) -> None:
        """Print what blame names, as `ragweir blame grounded` does."""
        if (report := self._causes.report) is not None:
            self._say("blame", report.headline)
            for place in range(len(report.causes)):
                self._say("", report.sentence(place))

    def _show_window(self) -> None:
        if machine.monotonic() < self._scrape_at:
            return
        self._scrape_at = machine.monotonic() + _SCRAPE_SECONDS
        found = means(self._exporter, self._slo.metric, self._window)
        if found.end_s > max(self._means.end_s, self._first_end_s) and found.versions:
            self._means = found
            self._say("", f"{self._window} {found}")

    def _say(self, what: str, text: str) -> None:
        style = _STYLES.get(what, "bold")
        lines = Table.grid()
        lines.add_column(no_wrap=True)
        lines.add_column()
        at = f"{machine.monotonic() - self._began:5.1f} s  "
        lines.add_row(Text.assemble(at, (f"{what:<9} ", style)), text)
        self._terminal.print(lines)
