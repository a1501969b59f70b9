"""The rules for Prometheus: valid, about series that exist, each threshold held by their tests from both sides."""

import copy
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import program
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ragweir.errors import ConfigurationError
from ragweir.streams.analysis.slo import alert_rules as slo_rules
from ragweir.streams.analysis.slo import burns
from ragweir.streams.analysis.slo.linked_rules import link_rules, link_tests
from ragweir.streams.analysis.slo.synthetic_tests import synthetic_tests
from ragweir.streams.commands.slo import app
from ragweir.streams.playground.local.prometheus import Programs
from ragweir.streams.services.export.anchor_series import FAMILIES as ANCHOR_SERIES
from ragweir.streams.services.export.exposition import _HEADS as WINDOW_SERIES
from ragweir.streams.services.export.shift_series import FAMILIES as SHIFT_SERIES
from ragweir.streams.services.instruments import TABLE
from ragweir.streams.settings import Slo
from tools.reference.single_tables import alert_rows, commands_of

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = sorted((DEPLOY / "prometheus" / "rules").glob("*.yml"))
TESTS = DEPLOY / "prometheus" / "tests"
SLOS = (
    Slo(name="relevant", metric="context_support", at_least=0.25, objective=0.95),
    Slo(name="quick", metric="total_latency_ms", at_most=3_000, objective=0.999, dimensions={"model": "m-4"}),
    Slo(name="lenient", metric="context_support", at_least=0.5, objective=0.7),
)
JUDGED = (
    Slo(name="faithful", metric="judge_faithfulness", at_least=0.5, objective=0.95),
    Slo(name="useful", metric="judge_relevance", at_least=0.7, objective=0.8),
)
METRICS = {slo.metric for slo in JUDGED}
COMPARISON = re.compile(r"(?<=[<>=] )-?\d+(\.\d+)?\b")

Rules = dict[str, Any]


def promtool(tools: Programs, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tools.promtool, *arguments], capture_output=True, text=True, check=False)


def proven(tools: Programs, folder: Path, rules: Rules, tests: Rules, beside: Iterable[Path] = ()) -> str:
    """Write rules and tests into a folder and run them beside other rules; gives what failed, or nothing."""
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    files = [*(str(file.resolve()) for file in beside), "rules.yml"]
    (folder / "tests.yml").write_text(yaml.safe_dump({**tests, "rule_files": files}))
    done = promtool(tools, "test", "rules", folder / "tests.yml")
    assert "FAILED" in done.stdout + done.stderr or done.returncode == 0, done.stderr
    return done.stdout + done.stderr if done.returncode else ""


def loaded(file: Path) -> Rules:
    content: Rules = yaml.safe_load(file.read_text())
    return content


def every(rules: Rules) -> list[Rules]:
    return [rule for group in rules["groups"] for rule in group["rules"]]


def mutants(rules: Rules) -> Iterator[tuple[str, str, Rules]]:
    """Each number that an alert compares with or waits for, made larger and smaller: alert, change, changed rules."""
    for place, rule in enumerate(every(rules)):
        if "alert" not in rule:
            continue
        name = rule["alert"]
        for number in COMPARISON.finditer(rule["expr"]):
            value = float(number[0])
            for changed in (value * 1.5, value * 0.5) if value else (1.0, -1.0):
                mutant = copy.deepcopy(rules)
                expression = f"{rule['expr'][: number.start()]}{changed:.9g}{rule['expr'][number.end() :]}"
                every(mutant)[place]["expr"] = expression
                yield name, f"{rule['expr'][: number.end()].split()[-2]} {number[0]} to {changed:g}", mutant
        if wait := rule.get("for"):
            seconds = 60 * int(wait.removesuffix("m"))
            for changed_s in (seconds * 2, seconds // 2):
                mutant = copy.deepcopy(rules)
                every(mutant)[place]["for"] = f"{changed_s}s"
                yield name, f"for {wait} to {changed_s}s", mutant


def about(tests: Rules, alert: str) -> Rules:
    """Only the tests that are about one alert."""
    kept = [test for test in tests["tests"] if any(each["alertname"] == alert for each in test["alert_rule_test"])]
    return {**tests, "tests": kept}


MUTANTS = [(file.name, *mutant) for file in RULES for mutant in mutants(loaded(file))]


def test_prometheus_takes_the_configuration_and_every_rule(tools: Programs) -> None:
    """The configuration that ships, with the rules it names, has no error."""
    done = promtool(tools, "check", "config", DEPLOY / "prometheus" / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES)} rule files found" in done.stdout


@pytest.mark.parametrize("slos", [(), SLOS[:1], SLOS, SLOS + JUDGED], ids=["no", "one", "three", "judged"])
def test_lint_finds_nothing_in_all_rules(tools: Programs, tmp_path: Path, slos: tuple[Slo, ...]) -> None:
    """The rules that ship and those of no, one and several SLOs pass every check of `promtool check config`."""
    shipped = tmp_path / "prometheus"
    shutil.copytree(DEPLOY / "prometheus", shipped)
    (shipped / "rules" / "slo.yml").write_text(slo_rules.written(slo_rules.rules(slos, judged=METRICS)))
    done = promtool(tools, "check", "config", "--lint=all", "--lint-fatal", shipped / "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "slo.yml" in done.stdout


def test_alertmanager_takes_the_configuration(tools: Programs) -> None:
    """Alertmanager's configuration that ships has no error."""
    file = DEPLOY / "alertmanager" / "alertmanager.yml"
    done = program(tools.amtool, "check-config", file, folder=tools.home)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alertmanager_inhibits_alerts_that_exist() -> None:
    """An alert that Alertmanager's configuration names is one that we have."""
    named = set(re.findall(r"Ragweir\w+", (DEPLOY / "alertmanager" / "alertmanager.yml").read_text()))
    assert named
    assert named <= {name.strip("`") for name, *_ in alert_rows()}


@pytest.mark.heavy
@pytest.mark.parametrize("file", [file.name for file in RULES])
def test_the_rules_hold(tools: Programs, file: str) -> None:
    """Every case of the tests that ship passes, beside the rules that ship."""
    done = promtool(tools, "test", "rules", TESTS / file)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("file", "alert", "mutant"),
    [
        # Of the two changes of each number one is made here, and the other by `make test-long`.
        pytest.param(file, alert, mutant, id=f"{alert} {change}", marks=[pytest.mark.long] if number % 2 else [])
        for number, (file, alert, change, mutant) in enumerate(MUTANTS)
    ],
)
def test_a_changed_threshold_is_noticed(tools: Programs, tmp_path: Path, file: str, alert: str, mutant: Rules) -> None:
    """A threshold or a waiting time that is half or double fails a case of its alert."""
    tests = loaded(TESTS / file)
    beside = [TESTS / each for each in tests["rule_files"] if Path(each).name != file]
    assert alert in proven(tools, tmp_path, mutant, about(tests, alert), beside)


def test_every_alert_has_a_threshold_that_was_changed() -> None:
    """No alert escapes the test above for being written otherwise than expected."""
    alerts = [rule for file in RULES for rule in every(loaded(file)) if "alert" in rule]
    assert {alert for _, alert, _, _ in MUTANTS} == {rule["alert"] for rule in alerts}
    for rule in alerts:
        comparisons = re.findall(r"[<>]=?|==|!=", re.sub(r"\{.*?\}", "", rule["expr"]))
        assert len(comparisons) == len(COMPARISON.findall(rule["expr"])), rule["alert"]


@pytest.mark.heavy
@pytest.mark.parametrize("scale", [1, *(pytest.param(scale, marks=pytest.mark.long) for scale in (0.02, 0.001))])
def test_the_rules_of_slos_hold(tools: Programs, tmp_path: Path, scale: float) -> None:
    """The tests that `ragweir slo rules --tests` writes pass on its rules, of tight, usual and wide budgets."""
    (tmp_path / "slo.yml").write_text(slo_rules.written(slo_rules.rules(SLOS + JUDGED, scale, METRICS)))
    (tmp_path / "tests.yml").write_text(slo_rules.written(synthetic_tests(SLOS + JUDGED, "slo.yml", scale, METRICS)))
    check = promtool(tools, "check", "rules", tmp_path / "slo.yml")
    assert check.returncode == 0, check.stderr
    done = promtool(tools, "test", "rules", tmp_path / "tests.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_links_of_alerts_to_the_console_are_those_that_prometheus_makes(tools: Programs, tmp_path: Path) -> None:
    """The times in them are those of the evaluation and of the start of the long window."""
    slos, url = SLOS[:1], "https://ragweir.example.org"
    rules, tests = slo_rules.rules(slos), synthetic_tests(slos, "slo.yml")
    link_rules(rules, slos, url)
    link_tests(tests, slos, url)
    (tmp_path / "slo.yml").write_text(slo_rules.written(rules))
    (tmp_path / "tests.yml").write_text(slo_rules.written(tests))
    assert f"{url}/cause?slo={slos[0].name}&" in (tmp_path / "tests.yml").read_text()
    done = promtool(tools, "test", "rules", tmp_path / "tests.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "tests.yml").write_text(slo_rules.written(synthetic_tests(slos, "slo.yml")))
    assert promtool(tools, "test", "rules", tmp_path / "tests.yml").returncode != 0


@pytest.mark.heavy
@pytest.mark.parametrize(
    "slo",
    [
        pytest.param(slo, marks=pytest.mark.long if slo.name not in ("relevant", "quick") else [], id=slo.name)
        for slo in SLOS + JUDGED
    ],
)
def test_a_changed_slo_threshold_is_noticed(tools: Programs, tmp_path: Path, slo: Slo) -> None:
    """Each share and each least number of bad events that is half or half as much again fails a written test."""
    tests = synthetic_tests([slo], "rules.yml", judged=METRICS)
    changed = list(mutants(slo_rules.rules([slo], judged=METRICS)))
    assert len(changed) == 2 * 2 * 3
    kept = [
        f"{alert} {change}"
        for alert, change, mutant in changed
        if alert not in proven(tools, tmp_path, mutant, about(tests, alert))
    ]
    assert not kept


@given(objective=st.floats(0.0001, 0.9999999))
def test_an_alert_can_fire_whatever_the_budget(objective: float) -> None:
    """Both thresholds lie between the budget and 1, the page's above the ticket's."""
    slow, fast = burns.SLOW.threshold(objective), burns.FAST.threshold(objective)
    assert 1 - objective < slow < fast < 1


def test_expressions_are_about_series_that_exist() -> None:
    """Every series that a rule reads is declared by a service or recorded by a rule."""
    rules = [rule for file in RULES for rule in every(loaded(file))] + every(
        slo_rules.rules(SLOS + JUDGED, judged=METRICS)
    )
    parts = {"histogram": ("_bucket", "_count", "_sum")}
    known = {f"{line.name}{part}" for line in TABLE for part in parts.get(line.kind, ("",))}
    known |= {f"{line.name.removesuffix('_total')}_created" for line in TABLE if line.kind == "counter"}
    known |= (
        set(WINDOW_SERIES)
        | {family.name for family in (*ANCHOR_SERIES, *SHIFT_SERIES)}
        | {rule["record"] for rule in rules if "record" in rule}
    )
    for rule in rules:
        bare = re.sub(r"\{.*?\}|\[.*?\]", "", rule["expr"])
        read = set(re.findall(r"[\w:]*ragweir[\w:]+", bare))
        assert read <= known, rule
        assert read or "up" in bare, rule


@pytest.mark.heavy
def test_every_alert_names_a_command_that_exists() -> None:
    """The annotation `next` of each alert has commands whose names and options the command line knows."""
    rules = [rule for file in RULES for rule in every(loaded(file))] + every(slo_rules.rules(SLOS[:1]))
    alerts = {rule["alert"]: rule["annotations"] for rule in rules if "alert" in rule}
    for alert, annotations in alerts.items():
        commands = commands_of(annotations.get("next", ""))
        assert commands, alert
        for name, *words in map(str.split, commands):
            assert name == "ragweir", alert
            done = CliRunner().invoke(app, [*words, "--help"])
            assert done.exit_code == 0, (alert, words, done.output)
            assert {word for word in words if word.startswith("--")} <= set(done.output.split()), (alert, words)


def test_labels_in_expressions_are_labels_of_their_series() -> None:
    """Every label that a rule selects by is one that its series is declared with, or that Prometheus gives."""
    labels = {line.name: set(line.labels) for line in TABLE}
    for rule in [rule for file in RULES for rule in every(loaded(file))] + every(
        slo_rules.rules(SLOS + JUDGED, judged=METRICS)
    ):
        for series, selector in re.findall(r"\b(ragweir_\w+)\{(.*?)\}", rule["expr"]):
            chosen = set(re.findall(r"(\w+)\s*[=!]", selector))
            assert chosen <= labels.get(series, {"window"}) | {"job", "instance"}, rule


@pytest.mark.heavy
@given(
    st.recursive(
        st.text() | st.integers() | st.booleans() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["expr", "labels"]), inner),
    )
)
def test_what_is_written_is_yaml_of_the_same_data(value: Any) -> None:
    """Reading back what `written` wrote gives the data again, whatever the text in it."""
    assert yaml.safe_load(slo_rules.written({"value": value})) == {"value": value}


def test_the_command_writes_rules_and_tests_that_hold(
    tools: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ragweir slo rules`, with `--tests` and without, writes files that promtool passes."""
    monkeypatch.chdir(tmp_path)
    Path("ragweir.toml").write_text(
        '[[slo]]\nname = "relevant"\nmetric = "context_support"\nat_least = 0.25\nobjective = 0.95\n'
    )
    for file, arguments in {"slo.yml": [], "tests.yml": ["--tests", "slo.yml"]}.items():
        done = CliRunner().invoke(app, ["slo", "rules", *arguments], catch_exceptions=False)
        assert done.exit_code == 0
        Path(file).write_text(done.output)
    assert promtool(tools, "test", "rules", "tests.yml").returncode == 0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ("", "there is no SLO in the settings"),
        ('[[slo]]\nname = "x"\nmetric = "misspelt"\nat_least = 1\nobjective = 0.9\n', "'misspelt'"),
    ],
    ids=["none", "on no metric"],
)
def test_slos_that_could_never_alert_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, told: str
) -> None:
    """Without an SLO, or with one on a metric that does not exist, the command writes nothing and says why."""
    monkeypatch.chdir(tmp_path)
    Path("ragweir.toml").write_text(settings)
    done = CliRunner().invoke(app, ["slo", "rules"])
    assert isinstance(done.exception, ConfigurationError)
    assert told in str(done.exception)
    assert not done.output
