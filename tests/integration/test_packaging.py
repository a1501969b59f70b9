"""The wheel, built from the source distribution, beside other packages that are called as ours were."""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOREIGN = ("metrics", "schemas", "streams")
_IMPORT_ALL = """
import importlib, pkgutil, sys
import ragweir
names = [found.name for found in pkgutil.walk_packages(ragweir.__path__, "ragweir.")]
for name in names:
    if not name.endswith("__main__") and "faust" not in name:  # Faust puts a module of its own making in its place.
        importlib.import_module(name)
import metrics, schemas, streams
assert metrics.OWNER == schemas.OWNER == streams.OWNER == "somebody else"
print(len(names))
"""
_IMPORT_SCHEMAS = """
import sys
import ragweir.schemas.codec.json
above = ("confluent_kafka", "numpy", "ragweir.metrics", "ragweir.streams")
print([name for name in sys.modules if name.startswith(above)])
"""


def built(target: str, source: Path, to: Path) -> Path:
    """Build one distribution with the build backend, without the network."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(to)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = to.iterdir()
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packaging")
    with tarfile.open(built("sdist", ROOT, folder / "sdist")) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    return built("wheel", source, folder / "wheel")


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a clean environment: our dependencies, the wheel, and foreign packages of our old names."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    variables = {"base": str(home), "platbase": str(home)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=variables))
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "ragweir" not in entry.name and not (packages / entry.name).exists():
            (packages / entry.name).symlink_to(entry)
    for name in FOREIGN:
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text('OWNER = "somebody else"\n')
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    return Path(sysconfig.get_path("scripts", "venv", vars=variables)) / "python"


def run(python: Path, folder: Path, *arguments: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([python, *arguments], cwd=folder, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_claims_no_name_but_its_own(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
        data = {name for name in archive.namelist() if not name.endswith(".py")}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"ragweir"}
    sources = subprocess.run(
        ["git", "ls-files", "schemas", "metrics", "streams"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    ours = {f"ragweir/{name}" for name in sources.stdout.split() if not name.endswith(".py")}
    assert ours <= data, "data files are missing"


@pytest.mark.heavy
def test_every_module_is_importable_beside_packages_of_the_same_names(python: Path, tmp_path: Path) -> None:
    assert int(run(python, tmp_path, "-c", _IMPORT_ALL)) > 150


def test_records_are_read_without_kafka_numpy_or_what_lies_above(python: Path, tmp_path: Path) -> None:
    assert run(python, tmp_path, "-c", _IMPORT_SCHEMAS).strip() == "[]"


def test_an_event_is_scored_by_the_installed_wheel(python: Path, tmp_path: Path) -> None:
    event = {"event_id": "1", "query": "Who?", "response": "Ada.", "ended_at": "2026-11-21T10:00:00Z"}
    (tmp_path / "events.jsonl").write_text(json.dumps(event))
    (made,) = run(python, tmp_path, "-m", "ragweir.streams.commands", "score", "events.jsonl").splitlines()
    assert json.loads(made)["scores"]["response_words"] == 1
