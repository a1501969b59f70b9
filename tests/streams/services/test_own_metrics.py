"""Own metrics and packs by the settings: loaded where they are named, and errors in one sentence."""

import re
import sys
from pathlib import Path

import pytest
from commands import ROOT

from ragweir.errors import ConfigurationError
from ragweir.metrics.catalogue import CATALOGUE_VERSION
from ragweir.metrics.view import example
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.packed_scores import row_of
from ragweir.schemas.window import Window
from ragweir.schemas.window_record import parse_window
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.services.shared.from_settings import aggregator, catalogue, decoder, known_catalogue
from ragweir.streams.settings import Settings

GOOD = '''
from ragweir.metrics.metric import Metric

def words(view):
    """Number of words."""
    return len(view.response.tokens)

METRICS = [Metric(words, "own", "count", "neither", (), "here")]
ONE = METRICS[0]
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file for a module in the working folder; it is forgotten after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path / "mine.py"


def settings(**metrics: object) -> Settings:
    return Settings.model_validate({"metrics": metrics})


def error(**metrics: object) -> str:
    with pytest.raises(ConfigurationError) as raised:
        catalogue(settings(**metrics))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def version(module: Path, source: str) -> str:
    module.write_text(source)
    sys.modules.pop("mine", None)
    return catalogue(settings(modules="mine")).version


@pytest.mark.parametrize("name", ["mine", "mine:METRICS", "mine:ONE"])
def test_a_module_that_is_named_is_loaded(module: Path, name: str) -> None:
    module.write_text(GOOD)
    loaded = catalogue(settings(modules=[name]))
    assert loaded.score(example(response="Two words.")).scores["words"] == 2
    assert "words" not in catalogue(settings()).metrics


@pytest.mark.slow
def test_the_version_follows_what_is_loaded(module: Path, tmp_path: Path) -> None:
    """Also in evaluations; the shipped packs are part of the catalogue's own version."""
    assert catalogue(settings()).version == catalogue(settings(packs=["EF_1"])).version == CATALOGUE_VERSION == "3"
    first = version(module, GOOD)
    assert first.startswith("3+")
    assert len(first) == 10
    assert version(module, GOOD) == first
    assert version(module, GOOD.replace("len(", "2 * len(")) != first
    assert version(module, f"__version__ = '1'\n{GOOD}") == version(module, f"__version__ = '1'\n# again\n{GOOD}")
    assert evaluate_config(settings(modules="mine"), "interactions").catalogue.version.startswith("3+")
    folder = tmp_path / "packs"
    folder.mkdir()
    pack = folder / "q.toml"
    pack.write_text('question = "q"\nform = "facts"\n[[facts]]\nname = "yes"\nany = ["yes"]\n')
    before = catalogue(settings(packs=[str(folder)])).version
    moved = folder.rename(tmp_path / "elsewhere")
    assert catalogue(settings(packs=str(moved))).version == before
    (moved / "q.toml").write_text((moved / "q.toml").read_text().replace('["yes"]', '["no"]'))
    assert catalogue(settings(packs=str(moved))).version != before


WRONG = {
    "does not parse": ("def", "cannot be imported"),
    "raises": ("1 / 0", "ZeroDivisionError"),
    "leaves": ("import sys; sys.exit(3)", "SystemExit"),
    "has no metrics": ("", "no attribute 'METRICS'"),
    "is empty": ("METRICS = []", "gives no metric"),
    "is a number": ("METRICS = 3", "neither a Metric nor an iterable of them"),
    "has a number": ("METRICS = [3]", "item 0 is of type int, not a Metric"),
    "another unit": (GOOD.replace('"count"', '"euro"'), "unit is not one of ratio"),
    "another cost": (GOOD.replace('"here")', '"here", cost="llm")'), "cost is not free"),
    "a shipped group": (GOOD.replace('"own"', '"grounding"'), "group grounding ships with ragweir"),
    "a shipped name": (
        GOOD.replace("words(", "response_words(").replace("(words", "(response_words"),
        "defined already",
    ),
    "no docstring": (GOOD.replace('"""Number of words."""', ""), "needs a docstring"),
    "an unknown need": (GOOD.replace('(), "here"', '("answer",), "here"'), "'answer', which is no field"),
    "twice": (GOOD + "METRICS *= 2", "two metrics are called words"),
    "a name": (GOOD.replace('"here")', '"here", name="a b")'), "name is not a letter"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("source", "why"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_used_is_one_sentence(module: Path, source: str, why: str) -> None:
    module.write_text(source)
    assert why in error(modules=["mine"])


def test_modules_that_everybody_may_change_are_not_imported(module: Path) -> None:
    module.write_text("raise AssertionError")
    module.chmod(0o666)
    assert "every user of this machine may change" in error(modules=["mine"])


def test_a_metric_of_a_pack_that_is_not_loaded_names_the_pack() -> None:
    """In `metrics.off`, in a routing rule, and in an SLO."""
    hint = 'set metrics.packs = ["EF_1"]'
    assert hint in error(off=["EF_1.rules_found"])
    judge = {"base_url": "http://localhost:1/v1", "model": "m"}
    rule = {"name": "r", "on": "EF_1.rules_found", "below": 1, "suites": ["ragas"], "probability": 1}
    routed = Settings.model_validate({"judge": judge, "routing": {"rules": [rule]}})
    with pytest.raises(ConfigurationError, match="EF_1, which is not loaded"):
        evaluate_config(routed, "interactions")
    slo = {"name": "s", "metric": "EF_1.rules_found", "at_least": 1, "objective": 0.9}
    with pytest.raises(ConfigurationError, match="EF_1, which is not loaded"):
        SERVICES["aggregate"].agent(Settings.model_validate({"slo": [slo]}), 1)


def test_windows_have_the_metrics_of_packs_that_are_no_longer_loaded() -> None:
    """They are decoded and merged as before, with the bounds of the metric; so are those of a user's own pack."""
    assert "EF_1.rules_coverage" in known_catalogue(settings()).metrics
    assert "EF_1.rules_coverage" not in catalogue(settings()).metrics
    with_pack = aggregator(settings(packs=[str(ROOT / "examples/own_pack/packs")]))
    scores = {"EF_1.rules_coverage": 0.5, "refunds.fact_score": 0.25}
    old = Evaluation(event_id="1", event_time=0, catalogue_version="2", scores=scores)
    (aggregate,) = with_pack.aggregate([row_of(old)], ["key"]).values()
    written = Window.model_validate(
        {"window": "1m", "start": 0, "end": 60_000, "dimensions": {}, "partition": 0, "part": 0, **aggregate.fields()}
    )
    reader = aggregator(settings()).decoder()
    first, second = (reader.decode(parse_window(encode(written))) for _ in range(2))
    first.merge(second)
    assert first.fields()["metrics"].keys() == scores.keys()
    assert first.metrics["refunds.fact_score"].count == 2


def fenced(title: str) -> str:
    """The file of the guide that has this name."""
    guide = (ROOT / "docs/guides/metric.md").read_text(encoding="utf-8")
    found = re.search(rf"^`{re.escape(title)}`:\n\n```\w+\n(.*?)^```$", guide, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_files_of_the_guide(module: Path) -> None:
    """Its metric and entry point are the example's, its pack is one, and its decoder reads records."""
    example_folder = ROOT / "examples/own_metric"
    assert fenced("support_metrics.py") == (example_folder / "support_metrics.py").read_text(encoding="utf-8")
    assert fenced("pyproject.toml") in (example_folder / "pyproject.toml").read_text(encoding="utf-8")
    (module.parent / "refunds.toml").write_text(fenced("packs/refunds.toml"))
    assert "refunds.free_of_charge" in catalogue(settings(packs=str(module.parent))).metrics
    module.write_text(fenced("pairs.py"))
    made = decoder(Settings.model_validate({"input": {"format": "mine:Pairs"}}))
    assert [str(each) for each in made.decode(b"a|b")] == ["a record is ID|QUESTION|ANSWER"]
    (event,) = made.decode(b"1|Who?|Ada.")
    assert isinstance(event, Interaction)
    assert (event.event_id, event.query, event.response) == ("1", "Who?", "Ada.")
