"""A misspelt name is answered with its nearest neighbour, wherever names are looked up."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from ragweir.errors import ConfigurationError
from ragweir.streams.analysis.compare.comparison import Difference
from ragweir.streams.analysis.compare.gates import Gate
from ragweir.streams.commands import app
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.services.shared.from_settings import catalogue, map_text, otlp_results
from ragweir.streams.settings import Settings, load

JUDGE = '[judge]\nbase_url = "http://127.0.0.1:9"\nmodel = "m"\n'
RULE = '[[routing.rules]]\nname = "a"\nsuites = ["{suite}"]\non = "{on}"\nbelow = 1\n'
SLO = '[[slo]]\nname = "a"\nmetric = "{metric}"\nat_least = 1\nobjective = 0.9\n'


def loaded(toml: str) -> Settings:
    Path("ragweir.toml").write_text(toml)
    return load()


def evaluated(toml: str) -> object:
    return evaluate_config(loaded(JUDGE + toml), "t")


def aggregated(toml: str) -> object:
    return SERVICES["aggregate"].check(loaded(toml))


def mirrored(toml: str) -> object:
    settings = loaded(toml)
    return otlp_results(settings, catalogue(settings))


def compared(gate: str) -> object:
    none: Any = None
    found: dict[str, Difference] = {"context_support": none}
    return Gate.read(gate, {}).failure(found)


def command(words: str) -> object:
    return app(words.split("|"), standalone_mode=False)


LOOKED_UP: tuple[tuple[Callable[[str], object], str, str], ...] = (
    (loaded, "[judgge]\nmodel = 'm'", "judge"),
    (loaded, "[judge]\nmax_outptu_tokens = 99", "max_output_tokens"),
    (loaded, "[limits.max_items]\ncontext = 1", "contexts"),
    (loaded, "[judge.prices.m]\ninput_used = 1\noutput_usd = 1", "input_usd"),
    (loaded, SLO.format(metric="refusal").replace("at_least", "atleast"), "at_least"),
    (loaded, RULE.format(suite="rubric", on="model").replace("below", "belw"), "below"),
    (loaded, '[windows]\ndimensions = ["tenants"]', "tenant"),
    (loaded, '[registry.client]\n"ssl.ca.lokation" = "x"', "ssl.ca.location"),
    (aggregated, SLO.format(metric="contxt_support"), "context_support"),
    (evaluated, RULE.format(suite="rubrik", on="model"), "rubric"),
    (evaluated, "[routing.floors]\ncontext_recal = 0.1", "context_recall"),
    (evaluated, RULE.format(suite="rubric", on="contxt_support"), "context_support"),
    (evaluated, RULE.format(suite="rubric", on="tenannt"), "tenant"),
    (evaluated, RULE.format(suite="rubric", on="context_support") + 'unless = "refussal"', "refusal"),
    (mirrored, '[metrics]\noff = ["contxt_support"]', "context_support"),
    (mirrored, '[output.otlp]\nmetrics = ["contxt_support"]', "context_support"),
    (lambda name: map_text(Path(name)), "langfus", "langfuse"),
    (compared, "contxt_support -0.1", "context_support"),
    (command, "metrics|contxt_support", "context_support"),
    (command, "metrics|check|contxt_support", "context_support"),
    (command, "slo|rehearse|none|--slo|a: contxt_support >= 1 for 95%", "context_support"),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("look_up", "given", "near"), LOOKED_UP, ids=[each[1].replace("\n", " ") for each in LOOKED_UP]
)
def test_a_misspelt_name_is_answered_with_its_neighbour(
    look_up: Callable[[str], object], given: str, near: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message of each place that looks up a name ends with the nearest one that would fit."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ConfigurationError, typer.BadParameter)) as wrong:
        look_up(given)
    assert f"; the nearest is {near}" in str(wrong.value)


@pytest.mark.parametrize(
    ("variable", "near"), [("RAGWEIR_JUDG__MODEL", "judge"), ("RAGWEIR_JUDGE__MAX_OUTPUT_TOKEN", "max_output_tokens")]
)
def test_a_misspelt_variable_is_answered_with_its_neighbour(
    variable: str, near: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, "1")
    with pytest.raises(ConfigurationError) as wrong:
        load()
    assert str(wrong.value).endswith(f"; the nearest is {near}")


@pytest.mark.parametrize(
    ("toml", "hint"),
    [
        (SLO.format(metric="zzzzzzzz"), ""),
        (SLO.format(metric="answer_class"), ""),
        ('[metrics]\noff = ["refusal"]\n' + SLO.format(metric="refusal"), "; metrics.off switches it off"),
    ],
    ids=["like no other", "a category", "switched off"],
)
def test_a_name_that_is_not_misspelt_has_no_neighbour(
    toml: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError) as wrong:
        aggregated(toml)
    assert str(wrong.value).endswith(f"which is no numeric metric that is switched on{hint}")
