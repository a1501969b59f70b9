"""`ragweir demo`: the whole system on a local Kafka, from sample traffic to an alert that fires; no real judge."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

import orjson
import typer
from rich.text import Text

from ragweir.errors import DemoError, LocalServerError, PermanentError
from ragweir.streams.analysis.slo.burns import FAST, duration
from ragweir.streams.commands.app import FAILURE, STOPPED, app, err, out, shared_flags
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.screens.demo import (
    RISK,
    Results,
    head_of_agreement,
    head_of_thumbs,
    screen,
    show_agreement,
    show_columns,
    show_thumbs,
    show_worst,
    summarise,
)
from ragweir.streams.commands.stopping import interrupt_on_signals
from ragweir.streams.playground.demo.alerting import SCALE, AlertDrill, Monitoring, monitoring
from ragweir.streams.playground.demo.glossary import ALERT, explain
from ragweir.streams.playground.demo.kept import FOLDER, kept
from ragweir.streams.playground.demo.pages import console_of, login_address
from ragweir.streams.playground.demo.picture import Moment
from ragweir.streams.playground.demo.rater import labelled
from ragweir.streams.playground.demo.sample_traffic import Encode, as_event, as_trace, results, sample_publisher
from ragweir.streams.playground.demo.samples import (
    DROPPED_SHARE,
    PRODUCTION,
    STAGING,
    UNREADABLE,
    UNREADABLE_TRACES,
    interactions,
    samples,
)
from ragweir.streams.playground.demo.services import (
    DEFAULT_PREFIX,
    JUDGE_MS,
    WORKERS,
    create_trace_topic,
    demo_settings,
    services,
    show_assembly,
    targets,
    wait_until_ready,
)
from ragweir.streams.playground.demo.thumbs import given_thumbs
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.playground.local.prometheus import programs
from ragweir.streams.playground.simulated.faults import Faults
from ragweir.streams.playground.simulated.server import simulated_judge
from ragweir.streams.runtime.kafka.blocking_publisher import BlockingPublisher
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import Settings, WindowSettings
from ragweir.streams.settings.permissions import create

_EVENTS = 200
_POLL_SECONDS = 0.05

_NEXT = """
[bold]Next, with your own file or Kafka[/]
  ragweir score FILE              scores of JSON lines, JSON, CSV or Parquet
  ragweir console FILE            the answers of `ragweir score --out` on pages
  ragweir metrics                 the metrics, with their meanings
  export RAGWEIR_KAFKA__BOOTSTRAP_SERVERS=HOST:9092
                                  its address; `ragweir kafka` starts one to try
  ragweir doctor                  what is missing, and how to fix it
  ragweir topics create           the topics
  ragweir publish FILE            interactions, one JSON object a line
  ragweir up                      all services
[bold]With a judge[/] (`ragweir simulate-judge` is one without a key, a bill or a model)
  RAGWEIR_JUDGE__BASE_URL         any OpenAI-compatible endpoint
  RAGWEIR_JUDGE__API_KEY          its key
  RAGWEIR_JUDGE__MODEL            the name of a model
  RAGWEIR_JUDGE__DAILY_BUDGET_USD the most that it may cost; the rest waits
  RAGWEIR_JUDGE__PRICES           its price in dollars per million tokens, like
                          '{"MODEL": {"input_usd": 0.15, "output_usd": 0.6}}'"""


@app.command()
def demo(
    events: Annotated[
        int | None, typer.Option(min=1, max=100_000, help=f"Number of sample interactions. Default: {_EVENTS}.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0, max=3_600, help="Time over which they are published, in seconds.")
    ] = 8,
    keep: Annotated[
        bool, typer.Option("--keep", "--stay", help="Keep everything running until Ctrl-C, for looking around.")
    ] = False,
    alerts: Annotated[
        bool, typer.Option("--alerts/--no-alerts", help="End with a drop in quality and its alert, or without.")
    ] = True,
    traces: Annotated[
        bool,
        typer.Option(
            "--traces", help="Send OpenTelemetry traces in place of interactions, as an instrumented application does."
        ),
    ] = False,
    folder: Annotated[
        Path, typer.Option(file_okay=False, help="Folder that is left: interactions, evaluations, a picture.")
    ] = FOLDER,
    write_samples: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="File for the samples, as JSON lines; nothing else is done then."),
    ] = None,
) -> None:
    """Run everything on a local Kafka: sample traffic and its scores, then a drop in quality and the alert it causes.

    No configuration is needed, and none is read. Kafka is that of `ragweir kafka`. The judge is simulated, by word
    overlap, and its scores are marked so. With --traces a simulated exporter writes OpenTelemetry traces to the topic
    otlp_spans, and `assemble` makes interactions of them. Prometheus and Alertmanager are found on the PATH or fetched
    from Debian's packages; without them the alert is left out. Simulated users give thumbs to some answers of hours
    ago, a simulated rater labels some answers at the end, and the screen shows how far the score agrees with it. All
    that was started is stopped at the end and on
    Ctrl-C. The traffic, its evaluations and a picture of the incident are left in --folder.
    """
    if write_samples is not None:
        _write(write_samples, events or len(samples()))
        return
    if set(shared_flags()) - {"--debug"}:
        raise typer.BadParameter(
            "the demo has its own Kafka and settings; leave out --config, --bootstrap-servers, --prefix"
        )
    interrupt_on_signals()
    try:
        with local_kafka(say=out.say) as kafka:
            _run(kafka.bootstrap, events or _EVENTS, seconds, folder, alerts=alerts, keep=keep, traces=traces)
    except KeyboardInterrupt:
        out.say("Stopped early; everything that the demo started is gone.")
        raise typer.Exit(STOPPED) from None
    except DemoError as error:
        err.say(f"ragweir: {error}", "red")
        raise typer.Exit(FAILURE) from None


def _run(
    bootstrap: str,
    events: int,
    seconds: float,
    folder: Path,
    prefix: str = DEFAULT_PREFIX,
    *,
    alerts: bool = False,
    keep: bool = False,
    traces: bool = False,
) -> None:
    """Run the demo on a broker: topics, services, traffic, summary, alert."""
    with (
        kept(folder) as files,
        tempfile.TemporaryDirectory(prefix="ragweir-demo-") as temporary,
        simulated_judge(faults=Faults(latency_ms=JUDGE_MS)) as judge,
    ):
        console = console_of(Path(temporary))
        settings = demo_settings(
            bootstrap, judge.base_url, prefix, traces=traces, console=console, store=Path(temporary)
        )
        found = Results(evaluate_config(settings, settings.input_topic).catalogue, events)
        topics = [*create_trace_topic(settings), *create_topics(settings)]
        out.print(f"Created {len(topics)} topics: {topics[0]}, ...")
        out.print(f"Simulated judge at {judge.base_url}: word overlap, no model is asked")
        assembling = "key and join, which assemble interactions of traces, " if traces else ""
        out.print(f"Starting `ragweir up`: {assembling}evaluate with {WORKERS} workers, and all others")
        topic, encoded = (settings.trace_topics[0], as_trace) if traces else (settings.input_topic, as_event)
        encode = files.keeping(encoded)
        with services(settings, Path(temporary)) as check, BlockingPublisher(settings, topic) as publisher:
            wait_until_ready(settings, check)
            if address := login_address(settings.console):
                out.say(f"The console, where answers are looked at and labelled: {address}")
            what = f"traces to {topic}, by a simulated exporter, of" if traces else "interactions of"
            out.print(
                f"Publishing {events} {what} fictional companies in {STAGING}, where v2 is tried and made worse,"
                " and a few unreadable records\n"
            )
            show_columns(out, found)
            unreadable, began = UNREADABLE_TRACES if traces else UNREADABLE, machine.now()
            traffic = sample_publisher(publisher, events, seconds, encode, unreadable)
            with screen(out, found) as show:
                for result in results(settings, traffic, check):
                    if result is not None:
                        show(result)
            summarise(out, found, traffic.sent, settings, judge.calls()["count"])
            show_assembly(out, settings)
            show_worst(out, found, settings)
            with ExitStack() as servers:
                pages: Mapping[str, str] = {}
                step: Callable[[], None] = check
                moments: Sequence[Moment] = ()
                if alerts and _programs_found():
                    monitor = servers.enter_context(monitoring(settings, Path(temporary)))
                    drill = _alert(settings, publisher, monitor, check, encode)
                    step, moments = drill.step, drill.moments
                    pages = {"Prometheus": f"{monitor.prometheus.url}/graph", "Alertmanager": monitor.alertmanager.url}
                _thumbs(settings, publisher, encode, check)
                _agreement(settings, began)
                _say_what_is_left(files.finish(settings, RISK, moments))
                out.print(_NEXT, markup=True)
                if keep:
                    _keep(settings, step, pages)


def _programs_found() -> bool:
    head = "\nAn alert, from worse answers to a webhook", "bold"
    out.print(Text.assemble(head, " (sample traffic, its drop injected)"))
    try:
        programs(out.say)
    except LocalServerError as error:
        out.say(f"Left out: {error}")
        return False
    return True


def _alert(
    settings: Settings, publisher: BlockingPublisher, monitor: Monitoring, check: Callable[[], None], encode: Encode
) -> AlertDrill:
    """Let quality drop until the alert fires, and return once it is resolved."""
    (slo,) = settings.slo
    long, short = 60 * FAST.long_m, 60 * FAST.short_m
    threshold = FAST.threshold(slo.objective)
    usual_m = round(FAST.long_m * threshold / DROPPED_SHARE)
    sizes = " and ".join(settings.windows.sizes)
    out.print(
        f"SLO {slo.name}: {slo.metric} is at most {slo.at_most:g} in {slo.objective:.0%} of the answers in"
        f" {PRODUCTION}. {FAST.alert} fires if more than {threshold:.0%} are bad, over {duration(long)} and"
        f" over {duration(short)}."
    )
    out.print(
        f"This alert is faster than life: {duration(long * SCALE)} stand for {duration(long)}, and"
        f" {duration(short * SCALE)} for {duration(short)}. In life, a drop like the one below, after a good hour,"
        f" pages after about {usual_m} minutes. Windows are faster too, {sizes} in place of"
        f" {' and '.join(WindowSettings().sizes)}; they show the mean {slo.metric} per pipeline version."
    )
    explain(out, ALERT)
    out.say("")
    drill = AlertDrill(settings, publisher, monitor, check, out, encode)
    drill.run()
    return drill


def _thumbs(settings: Settings, publisher: BlockingPublisher, encode: Encode, check: Callable[[], None]) -> None:
    """Let simulated users rate answers of hours ago, and print their thumbs by pipeline version."""
    head_of_thumbs(out)
    try:
        show_thumbs(out, given_thumbs(settings, publisher, encode, check, machine.now()))
    except DemoError as error:
        check()
        out.say(f"Left out: {error}")


def _agreement(settings: Settings, began: datetime) -> None:
    """Let a simulated rater label answers of the traffic, and print how far the score agrees."""
    head_of_agreement(out)
    try:
        show_agreement(out, labelled(settings, began, Bars().shown))
    except PermanentError as error:  # There may be no answer with a score.
        out.say(f"Left out: {error}")


def _say_what_is_left(files: Mapping[Path, str]) -> None:
    out.print("\nLeft for looking around", style="bold")
    width = max(len(str(file)) for file in files)
    for file, what in files.items():
        out.print(f"  {file!s:<{width}}  {what}")


def _keep(settings: Settings, step: Callable[[], None], pages: Mapping[str, str] = MappingProxyType({})) -> None:
    """Print the addresses, and repeat a step until Ctrl-C."""
    exporter = {"Windows": f"http://{targets(settings)['ragweir-export'][0]}/metrics"}
    out.say("\nEverything keeps running until Ctrl-C:")
    console = {"Console": address} if (address := login_address(settings.console)) else {}
    for name, url in {**console, **pages, **exporter, "Judge": f"{settings.judge.base_url} (simulated)"}.items():
        out.say(f"  {name:<13} {url}")
    out.say(f"  {'Kafka':<13} ragweir --bootstrap-servers {settings.kafka.bootstrap_servers} doctor")
    try:
        while True:
            step()
            machine.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        out.say("Stopping everything")


def _write(file: Path, count: int) -> None:
    """Write samples that end now, one interaction a line."""
    try:
        with create(file) as sink:
            sink.writelines(orjson.dumps(event) + b"\n" for event in interactions(count, machine.now()))
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be written: {error.strerror}") from None
    out.say(f"{count} sample interactions written; try `ragweir score {file}`")
