"""The kernel's package: its version is that of ragweir, its sources build, and its wheel serves a clean install."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest
from commands import program

ROOT = Path(__file__).parents[2]
KERNEL = ROOT / "kernel"


def _toml(path: Path) -> dict[str, dict[str, object]]:
    return tomllib.loads(path.read_text())


def test_the_kernel_has_ragweirs_version_everywhere() -> None:
    """A kernel of another version is rejected when it is loaded, so that the extra names this one."""
    project = _toml(ROOT / "pyproject.toml")["project"]
    version = project["version"]
    assert _toml(KERNEL / "pyproject.toml")["project"]["version"] == version
    assert _toml(KERNEL / "Cargo.toml")["package"]["version"] == version
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    assert extras["fast"] == [f"ragweir-kernel=={version}"]


def test_crates_are_pinned_as_no_lock_is_kept() -> None:
    for name, given in _toml(KERNEL / "Cargo.toml")["dependencies"].items():
        version = given["version"] if isinstance(given, dict) else given
        assert str(version).startswith("="), name


def _run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, env=kept | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


SHIM = "#!/bin/sh\nfor line in 1 2 3; do echo backtrace >&2; done\nexit 1\n"


@pytest.mark.parametrize(("shim", "said"), [(SHIM, "has no Rust toolchain"), (None, "There is no cargo")])
def test_a_missing_toolchain_is_one_line(shim: str | None, said: str, tmp_path: Path) -> None:
    """rustup's cargo may be on the path without a toolchain: `make setup` goes on, and `make kernel` fails."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    (tmp_path / "bin").mkdir()
    for name in ("find", "rm", "touch"):
        (tmp_path / "bin" / name).symlink_to(shutil.which(name) or name)
    (tmp_path / "kernel").symlink_to(KERNEL)
    python, ready = tmp_path / ".venv" / "bin" / "python", tmp_path / ".venv" / ".ready"
    python.parent.mkdir(parents=True)
    for executable, script in [(python, "#!/bin/sh\n"), *([(tmp_path / "bin" / "cargo", shim)] if shim else [])]:
        executable.write_text(script)
        executable.chmod(0o755)
    ready.touch()
    for target, status in (("setup", 0), ("kernel", 2)):
        options = ("--file", ROOT / "Makefile", "--directory", tmp_path, "--assume-old", ".venv/.ready")
        done = program(make, *options, target, env={"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)})
        lines = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("make: ")]
        assert [said in line for line in lines] == [True], lines
        assert done.returncode == status


def _entries() -> Path:
    return Path(sysconfig.get_path("purelib"))


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cargo") is None, reason="there is no cargo")
def test_a_wheel_from_the_source_distribution_is_for_every_python_and_counts_in_a_clean_install(tmp_path: Path) -> None:
    """Both wheels are installed beside ragweir's dependencies; `always` fails if the kernel cannot be used."""
    maturin = (sys.executable, "-m", "maturin")
    _run(*maturin, "sdist", "--manifest-path", KERNEL / "Cargo.toml", "--out", tmp_path / "sdist")
    (packed,) = (tmp_path / "sdist").iterdir()
    with tarfile.open(packed) as archive:
        names = archive.getnames()
        archive.extractall(tmp_path / "source", filter="data")
    assert not [name for name in names if name.endswith("Cargo.lock")], "a lock names the registry of who built it"
    (source,) = (tmp_path / "source").iterdir()
    build = (*maturin, "build", "--release", "--manifest-path", source / "Cargo.toml", "--out", tmp_path / "wheels")
    _run(*build, CARGO_TARGET_DIR=str(KERNEL / "target"))
    hatchling = (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path / "wheels")
    subprocess.run(hatchling, cwd=ROOT, check=True, capture_output=True)
    kernel, ragweir = sorted((tmp_path / "wheels").iterdir(), key=lambda wheel: "kernel" not in wheel.name)
    assert "-cp311-abi3-" in kernel.name

    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    variables = {"base": str(home), "platbase": str(home)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars=variables))
    for entry in _entries().iterdir():
        if "ragweir" not in entry.name and not (packages / entry.name).exists():
            (packages / entry.name).symlink_to(entry)
    for wheel in (kernel, ragweir):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    event = {"event_id": "1", "query": "Who?", "response": "Ada Lovelace.", "ended_at": "2026-11-21T10:00:00Z"}
    (tmp_path / "events.jsonl").write_text(json.dumps(event))
    python = Path(sysconfig.get_path("scripts", "venv", vars=variables)) / "python"
    score = (python, "-m", "ragweir.streams.commands", "score", tmp_path / "events.jsonl")
    by_kernel, by_python = (_run(*score, RAGWEIR_KERNEL__USE=use).stdout for use in ("always", "never"))
    assert json.loads(by_kernel)["scores"]["response_words"] == 2
    assert by_kernel == by_python
