"""The examples of own metrics and packs as a reader uses them, and `ragweir metrics check` on broken metrics."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from commands import ROOT, ragweir, told

BROKEN = '''
import re
from ragweir.metrics.metric import Metric

def share(view):
    """Share of something."""
    return 3 / len(view.response.tokens)

def slow(view):
    """Is slow for many letters a."""
    return float(bool(re.search("(a|aa)+$", "a" * len(view.response.text) + "b")))

METRICS = Metric(share, "own", "ratio", "higher", (), "here")
SLOW = Metric(slow, "own", "ratio", "higher", (), "here")
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the package of the example is installed into, with its entry point."""
    source, folder = tmp_path_factory.mktemp("source") / "own_metric", tmp_path_factory.mktemp("site")
    source.mkdir()
    for file in (ROOT / "examples/own_metric").glob("*.*"):
        if file.is_file():
            (source / file.name).write_bytes(file.read_bytes())
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run([*command, "--target", folder, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def path(folder: Path) -> str:
    return f"{ROOT}:{folder}"


@pytest.mark.heavy
def test_the_package_of_the_example(installed: Path, tmp_path: Path) -> None:
    """It is available, is loaded when it is named, keeps the laws, and its version is part of the catalogue's."""
    listed = ragweir("metrics", folder=tmp_path, PYTHONPATH=path(installed)).stdout.decode()
    assert "support  of support-metrics 1.0" in listed
    assert "jargon_share" not in listed
    named = {"PYTHONPATH": path(installed), "RAGWEIR_METRICS__MODULES": "support"}
    assert "jargon_share" in ragweir("metrics", folder=tmp_path, **named).stdout.decode()
    checked = ragweir("metrics", "check", folder=tmp_path, **named)
    assert checked.returncode == 0, checked.stderr
    assert "jargon_share" in checked.stdout.decode()
    assert "kept" in checked.stdout.decode()
    event = {"event_id": "1", "ended_at": 0, "query": "q", "response": "Your ticket is in tier two"}
    scored = orjson.loads(ragweir("score", "-", text=orjson.dumps(event), folder=tmp_path, **named).stdout)
    assert scored["scores"]["jargon_share"] == pytest.approx(2 / 6, abs=1e-6)
    assert scored["catalogue_version"].startswith("3+")


@pytest.mark.heavy
def test_an_entry_point_that_is_not_named_is_not_imported(installed: Path, tmp_path: Path) -> None:
    copy = tmp_path / "site"
    copy.mkdir()
    (info,) = installed.glob("*.dist-info")
    (copy / info.name).mkdir()
    for file in info.iterdir():
        if file.is_file():
            (copy / info.name / file.name).write_bytes(file.read_bytes())
    (copy / "support_metrics.py").write_text("open('imported', 'w')\nMETRICS = 3\n")
    done = ragweir("metrics", folder=tmp_path, PYTHONPATH=path(copy))
    assert done.returncode == 0
    assert b"support  of support-metrics" in done.stdout
    assert not (tmp_path / "imported").exists()
    failed = ragweir("metrics", folder=tmp_path, PYTHONPATH=path(copy), RAGWEIR_METRICS__MODULES="support")
    assert "neither a Metric nor an iterable" in told(failed)
    assert (tmp_path / "imported").exists()


def test_the_pack_of_the_example(tmp_path: Path) -> None:
    """Two of its three events have its metrics."""
    folder = ROOT / "examples/own_pack"
    done = ragweir("score", folder / "events.jsonl", folder=tmp_path, RAGWEIR_METRICS__PACKS=str(folder / "packs"))
    scores = [orjson.loads(line)["scores"] for line in done.stdout.splitlines()]
    assert [each.get("refunds.fact_score") for each in scores] == [1.0, 0.5, None]


@pytest.mark.heavy
def test_a_metric_that_breaks_a_law(tmp_path: Path) -> None:
    """The law, the metric and a small event are shown, and the exit status is 1."""
    (tmp_path / "mine.py").write_text(BROKEN)
    done = ragweir("metrics", "check", folder=tmp_path, RAGWEIR_METRICS__MODULES="mine")
    shown = done.stdout.decode()
    assert done.returncode == 1
    assert "share breaks the law: results are within bounds, or null with a reason" in shown
    assert "is not within 0 to 1" in shown
    assert '{"event_id":"law"' in shown
    assert "Traceback" not in shown + done.stderr.decode()


@pytest.mark.long
def test_a_metric_without_end_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(BROKEN)
    done = ragweir("metrics", "check", folder=tmp_path, RAGWEIR_METRICS__MODULES="mine:SLOW")
    assert done.returncode == 1
    assert "slow breaks the law: " in done.stdout.decode()
    assert "too long" in done.stdout.decode()


@pytest.mark.heavy
def test_there_has_to_be_something_to_check(tmp_path: Path) -> None:
    assert 'metrics.modules = ["my_metrics"]' in told(ragweir("metrics", "check", folder=tmp_path))
    assert "there is no metric 'nothing'" in told(ragweir("metrics", "check", "nothing", folder=tmp_path))
    assert "computed by a suite" in told(ragweir("metrics", "check", "ragas_score", folder=tmp_path))


@pytest.mark.heavy
def test_score_names_a_metric_that_failed_on_live_events(tmp_path: Path) -> None:
    """A value out of bounds and an exception are null in the evaluation, and told on standard error."""
    (tmp_path / "broken.py").write_text(BROKEN)
    lines = [{"event_id": name, "ended_at": 0, "query": "q", "response": name} for name in ("a", "a b c d")]
    text = b"\n".join(orjson.dumps(line) for line in lines)
    done = ragweir("score", "-", text=text, folder=tmp_path, RAGWEIR_METRICS__MODULES="broken", PYTHONPATH=str(ROOT))
    assert "share failed on 1 of 2 events and is null there" in done.stderr.decode()
    assert [orjson.loads(line)["scores"]["share"] for line in done.stdout.splitlines()] == [None, 0.75]
