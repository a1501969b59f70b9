"""`ragweir slo`: writes Prometheus rules for the [[slo]] settings, and rehearses SLOs on past evaluations."""

from __future__ import annotations

from typing import Annotated

import typer

from ragweir.errors import ConfigurationError
from ragweir.streams.analysis.slo.alert_rules import rules as rules_of
from ragweir.streams.analysis.slo.alert_rules import written
from ragweir.streams.analysis.slo.linked_rules import link_rules, link_tests
from ragweir.streams.analysis.slo.synthetic_tests import synthetic_tests
from ragweir.streams.commands.app import app, settings
from ragweir.streams.commands.rehearse import rehearsal
from ragweir.streams.commands.slo_suggest import suggest
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.services.shared.from_settings import aggregator

commands = typer.Typer(help="Turn SLOs into alerts, and rehearse them on past evaluations.", no_args_is_help=True)
app.add_typer(commands, name="slo")

_EXAMPLE = '[[slo]] with name = "relevant", metric = "...", at_least = 0.5, objective = 0.95'


@commands.callback()
def slo() -> None:
    """Turn SLOs into alerts, and rehearse them on past evaluations."""


commands.command("rehearse")(rehearsal)
commands.command("suggest")(suggest)


@commands.command()
def rules(
    tests: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write promtool tests of the rules in FILE (relative to the tests)."),
    ] = None,
    scale: Annotated[
        float,
        typer.Option(min=0.0001, max=100, help="Factor of all durations, to try alerts: 0.02 makes an hour 72 s."),
    ] = 1.0,
) -> None:
    """Write the Prometheus rules of the SLOs: a page when an error budget burns fast, a ticket when it burns slowly.

    `ragweir slo rules > rules/slo.yml` writes the rules, and `ragweir slo rules --tests ../rules/slo.yml >
    tests/slo.yml` the tests that `promtool test rules tests/slo.yml` runs. With `console.public_url` each alert
    has a link to the causes of its bad answers in the console, as the annotation `console_url`.
    """
    effective = settings()
    if not effective.slo:
        raise ConfigurationError(f"there is no SLO in the settings; one looks like {_EXAMPLE}")
    SERVICES["aggregate"].check(effective)  # An alert on a misspelt metric would never fire.
    made = "Made by `ragweir slo rules` from the [[slo]] settings: change those, and make it again."
    scaled = (
        [] if scale == 1 else [f"Every duration is multiplied by {scale:g}; the series are named as if it were not."]
    )
    judged = aggregator(effective).suites
    if tests is None:
        content = rules_of(effective.slo, scale, judged)
        link_rules(content, effective.slo, effective.console.public_url, scale)
    else:
        content = synthetic_tests(effective.slo, tests, scale, judged)
        link_tests(content, effective.slo, effective.console.public_url, scale)
    typer.echo(written(content, [made, *scaled]), nl=False)
