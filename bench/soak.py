"""All services at the highest steady rate of this machine, for an hour: memory, handles, lag and latency.

    .venv/bin/python -m bench.soak                  # ramp, then an hour; docs/soak.svg
    .venv/bin/python -m bench.soak --minutes 5
    .venv/bin/python -m bench.soak --minutes 1 --rate 50 --window 5s     # a look at whether it works

One broker, evaluate, judge, aggregate and export, the sender and the observer share the machine's cores. The judge's
endpoint is simulated: its scores are word overlap and its latency is set, so that the time to a judgement is ragweir's
share of it and nothing more. Exits with 1 if an event is lost or evaluated twice.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench import soak_report
from bench.soak_services import JUDGE, Process, Seen, SoakError, services, simulated_judge
from bench.soak_traffic import Observer, Sender, window_waits
from ragweir.errors import LocalServerError
from ragweir.schemas.window import duration_s
from ragweir.streams.judge.probe import SIMULATED
from ragweir.streams.kafka.topics import create_topics
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.playground.local.node import LOOPBACK, free_port
from ragweir.streams.settings import Settings, load
from tools import tables

PICTURE = Path(__file__).parents[1] / "docs" / "soak.svg"
PREFIX, PARTITIONS = "soak.", 4
_BROKER = {"log.retention.bytes": str(2**29), "log.segment.bytes": str(2**26)}
"""An hour of traffic would otherwise take tens of gigabytes of disk."""
_FIRST_RATE, _STEP, _LEAST_STEP = 50.0, 1.5, 1.08
_DRAIN_S = 120.0
_LOOK_S = 1.0


def soak_settings(bootstrap: str, judge_port: int, latency_ms: float, window: str) -> Settings:
    """The defaults, but for a judge that is simulated and no bound on what it costs.

    Args:
        bootstrap: address of Kafka.
        judge_port: of the simulated judge.
        latency_ms: of its answers; judging is given room for ten times the selected events.
        window: size of the base windows.
    """
    judge: dict[str, Any] = {
        "base_url": f"http://{LOOPBACK}:{judge_port}/v1",
        "api_key": "none",
        "model": SIMULATED,
        "prices": {SIMULATED: {"input_usd": 0.15, "output_usd": 0.6}},
        "daily_budget_usd": 1_000_000,
        "concurrency": min(2_000, max(64, int(latency_ms))),
        # The samples come round again and again: answers that are remembered would cost nothing.
        "cache_entries": 0,
    }
    return load(
        None,
        {
            "kafka": {"bootstrap_servers": bootstrap},
            "topics": {"prefix": PREFIX, "partitions": PARTITIONS},
            "telemetry": {"port": 0},
            # One loads a model, the other embeds: nothing that a simulated judge stands for.
            "metrics": {"off": ["ragas", "semantic"]},
            "windows": {"sizes": [window, f"{5 * duration_s(window)}s"]},
            "judge": judge,
        },
    )


class Soak:
    """The running whole.

    Args:
        settings: of the services.
        processes: the services by name, and the simulated judge.
        say: is told what is being done.
    """

    def __init__(self, settings: Settings, processes: Mapping[str, Process], say: Callable[[str], None]) -> None:
        self.settings, self.processes, self._say = settings, processes, say
        self.sender = Sender(settings)
        self.observer = Observer(settings, self.sender.due)

    def start(self) -> None:
        """Begin to send and to observe."""
        self.observer.start()
        self.sender.start()

    def stop(self) -> None:
        """End both."""
        self.sender.stop()
        self.observer.stop()

    def lags(self) -> dict[str, float]:
        """Events that each service has not finished: of evaluate and judge as seen from outside."""
        observer = self.observer
        return {
            "evaluate": max(0, len(self.sender.due) - observer.count["scored"]),
            "judge": max(0, observer.selected - observer.count["judged"]),
            "aggregate": self.processes["aggregate"].lag(),
            "export": self.processes["export"].lag(),
        }

    def ramp(self, step_s: float) -> float:
        """The highest rate at which all kept up for one step, found to within some percent."""
        held, failed, rate = 0.0, 0.0, _FIRST_RATE
        while not failed or failed / max(held, 1.0) > _LEAST_STEP:
            self._say(f"trying {rate:,.0f} events a second")
            if self._holds(rate, step_s):
                held = rate
            else:
                failed = rate
                self._drain(_DRAIN_S)
            if failed and held < 1.0 and failed < _FIRST_RATE / 4:
                raise SoakError("no rate holds: the machine is too busy with other things")
            rate = (held + failed) / 2 if failed else held * _STEP
        self._drain(_DRAIN_S)
        return held

    def _holds(self, rate: float, step_s: float) -> bool:
        self.sender.rate = rate
        until = time.monotonic() + step_s
        while time.monotonic() < until:
            time.sleep(min(_LOOK_S, max(0.0, until - time.monotonic())))
            self._check()
        lags = self.lags()
        share = self.observer.selected / max(1, self.observer.count["scored"])
        most = rate * soak_report.BACKLOG_S
        # Windows are written once a second, and records of two stages are read for each event judged.
        room = {"evaluate": most, "judge": most * share + 64, "aggregate": most * (1 + share), "export": most}
        return self.sender.behind_s < soak_report.BACKLOG_S / 2 and all(lags[name] <= room[name] for name in room)

    def _drain(self, within_s: float) -> bool:
        """Send nothing until all is finished; tells whether it was in time."""
        self._say("waiting until all is finished")
        self.sender.rate = 0.0
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            self._check()
            time.sleep(_LOOK_S / 2)
            lags = self.lags()
            if not lags["evaluate"] + lags["judge"]:
                return True
        return False

    def _check(self) -> None:
        for process in self.processes.values():
            process.check()
        if failed := self.sender.failed or self.observer.failed:
            raise SoakError(failed)

    def steady(self, rate: float, seconds: float, every_s: float, moved: Callable[[float], None]) -> Seen:
        """Keep one rate for so long and look at everything every so often; then wait until all is finished."""
        seen = Seen(began=time.time())
        self.sender.rate = rate
        until, next_look = seen.began + seconds, seen.began + every_s
        while (now := time.time()) < until:
            self._check()
            self._look_for_closed(seen)
            if now >= next_look:
                self._look(seen, now)
                next_look += every_s
                moved(min(seconds, now - seen.began))
            time.sleep(_LOOK_S / 2)
        seen.ended = time.time()
        self._drain(_DRAIN_S)
        return seen

    def _look(self, seen: Seen, now: float) -> None:
        seen.at.append(now - seen.began)
        for name, process in self.processes.items():
            seen.looks[name].append(process.look())
        for name, lag in self.lags().items():
            seen.lags[name].append(lag)

    def _look_for_closed(self, seen: Seen) -> None:
        size = f'window="{self.settings.windows.sizes[0]}"'
        for sample, end in self.processes["export"].series("ragweir_window_end_timestamp_seconds"):
            if size in sample:
                seen.closed_at.setdefault(end, time.time())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="at the steady rate")
    parser.add_argument("--rate", type=float, help="events a second, instead of a ramp")
    parser.add_argument("--share", type=float, default=0.9, help="of the highest rate that holds")
    parser.add_argument("--step-s", type=float, default=20.0, help="seconds of each step of the ramp")
    parser.add_argument("--every-s", type=float, default=5.0, help="seconds between looks")
    parser.add_argument("--workers", type=int, default=1, help="that evaluate")
    parser.add_argument("--window", default="1m", help="size of the base windows")
    parser.add_argument("--judge-ms", type=float, default=300.0, help="latency of the simulated judge")
    parser.add_argument("--markdown", action="store_true", help="print tables as markdown")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where the picture goes")
    return parser


def _run(chosen: argparse.Namespace, folder: Path, err: Console) -> soak_report.Result:
    with ExitStack() as stack:
        bar = stack.enter_context(Progress(console=err, disable=not err.is_terminal, transient=True))
        task = bar.add_task("starting", total=chosen.minutes * 60)
        say = lambda what: bar.update(task, description=what)  # noqa: E731
        broker = stack.enter_context(local_kafka(properties=_BROKER))
        port = free_port()
        settings = soak_settings(broker.bootstrap, port, chosen.judge_ms, chosen.window)
        create_topics(settings)
        judge = stack.enter_context(simulated_judge(port, chosen.judge_ms, folder))
        running = stack.enter_context(services(settings, chosen.workers, folder))
        soak = Soak(settings, {**running, JUDGE: judge}, say)
        soak.start()
        stack.callback(soak.stop)
        highest = None if chosen.rate else soak.ramp(chosen.step_s)
        rate: float = chosen.rate or (highest or 0) * chosen.share
        say(f"{rate:,.0f} events a second")  # type: ignore[no-untyped-call]
        seen = soak.steady(rate, chosen.minutes * 60, chosen.every_s, lambda done: bar.update(task, completed=done))
        soak.stop()
        size_s = duration_s(chosen.window)
        waits = {stage: soak.observer.waits(stage, seen.began, seen.ended) for stage in ("scored", "judged")}
        waits["closed"] = window_waits(soak.sender.due, seen.closed_at, size_s, seen.began, seen.ended)
        return soak_report.Result(rate, highest, settings, chosen.judge_ms, seen, waits, soak.observer, soak.sender)


def main() -> int:
    """Run, print the tables and make the picture; gives the exit status."""
    chosen = _parser().parse_args()
    err = Console(stderr=True)
    folder = Path(tempfile.mkdtemp(prefix="ragweir-soak-"))
    where = tables.machine()
    try:
        result = _run(chosen, folder, err)
    except (SoakError, LocalServerError) as error:
        err.print(f"soak: {error}\nThe logs are in {folder}.", style="red", highlight=False)
        return 1

    def found() -> Iterator[Any]:
        yield from (result.summary(), result.latencies(), result.processes())

    tables.show(found(), as_markdown=chosen.markdown)
    shutil.rmtree(folder, ignore_errors=True)
    chosen.picture.write_text(result.picture(where), encoding="utf-8")
    print(f"\n{chosen.picture}")
    return 0 if result.healthy else 1


if __name__ == "__main__":
    sys.exit(main())
