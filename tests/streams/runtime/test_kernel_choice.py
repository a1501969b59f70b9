"""The kernel is used if it can be, named where it runs, and rejected with a sentence if it is another one."""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from commands import ragweir
from kernels import needs_kernel
from prometheus_client import generate_latest

import ragweir as library
from ragweir.errors import ConfigurationError
from ragweir.metrics import native
from ragweir.metrics.catalogue import CATALOGUE_VERSION
from ragweir.metrics.counts import NAMES
from ragweir.metrics.view import reference
from ragweir.streams.analysis.checks import local
from ragweir.streams.analysis.checks.context import CheckContext
from ragweir.streams.runtime import kernel_choice as choices
from ragweir.streams.runtime.kernel_choice import kernel_choice
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.settings import KernelSettings, Settings, from_groups

ALWAYS, NEVER = from_groups({"kernel": {"use": "always"}}), from_groups({"kernel": {"use": "never"}})


@pytest.fixture(autouse=True)
def nothing_cached() -> Iterator[None]:
    choices._kernel.cache_clear()
    yield
    choices._kernel.cache_clear()


def _missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, native.MODULE, None)


def _installed(monkeypatch: pytest.MonkeyPatch, **attributes: Any) -> None:
    module = ModuleType(native.MODULE)
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, native.MODULE, module)


@needs_kernel
@pytest.mark.parametrize("use", ["auto", "always"])
def test_the_kernel_is_used_where_it_is_installed(use: Any) -> None:
    chosen = kernel_choice(KernelSettings(use=use))
    assert isinstance(chosen.counting, native.NativeCounting)
    assert chosen.label == str(chosen) == chosen.counting.version
    assert evaluate_config(from_groups({"kernel": {"use": use}}), "t").counting is chosen.counting, "one for a process"


def test_never_counts_in_python() -> None:
    assert evaluate_config(NEVER, "t").counting is reference


def test_without_the_kernel_auto_counts_in_python_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    _missing(monkeypatch)
    chosen = kernel_choice(KernelSettings())
    assert chosen.counting is reference
    assert str(chosen) == "python (the package ragweir-kernel is not installed)"
    assert local.kernel(CheckContext(Settings())).endswith(
        "at a lower speed: the package ragweir-kernel is not installed"
    )


def test_without_the_kernel_always_starts_nothing_and_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _missing(monkeypatch)
    with pytest.raises(ConfigurationError, match=r"ragweir-kernel is not installed; `pip install \"ragweir\[fast\]\"`"):
        SERVICES["evaluate"].check(ALWAYS)
    with pytest.raises(ConfigurationError, match="is not installed"):
        local.kernel(CheckContext(ALWAYS))


def test_a_kernel_of_another_catalogue_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """It might count something else."""
    _installed(monkeypatch, CATALOGUE_VERSION="0")
    chosen = kernel_choice(KernelSettings())
    assert chosen.counting is reference
    assert f"version 0 of the catalogue, not for {CATALOGUE_VERSION}" in str(chosen)
    with pytest.raises(ConfigurationError, match="version 0 of the catalogue"):
        evaluate_config(ALWAYS, "t")


def test_a_kernel_of_other_counts_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(monkeypatch, CATALOGUE_VERSION=CATALOGUE_VERSION, NAMES=("response_tokens",))
    assert "has other counts" in str(kernel_choice(KernelSettings()))


def test_a_kernel_that_does_not_take_these_tables_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of another version with the same catalogue and counts, where the extra did not pin it."""

    def kernel(_: object) -> object:
        raise ValueError("there is no table `suffixes`")

    known = {"CATALOGUE_VERSION": CATALOGUE_VERSION, "NAMES": NAMES, "PanicException": BaseException}
    for attributes in ({}, {"Kernel": kernel}):
        choices._kernel.cache_clear()
        _installed(monkeypatch, **known, **attributes)
        assert "does not take the tables" in str(kernel_choice(KernelSettings()))


@pytest.mark.parametrize(
    ("settings", "label"), [(NEVER, "python"), pytest.param(Settings(), "version", marks=needs_kernel)]
)
def test_build_info_names_what_counts(settings: Settings, label: str) -> None:
    label = kernel_choice(settings.kernel).version if label == "version" else label
    shown = generate_latest(telemetry_of("evaluate", 0, SERVICES["evaluate"].known(settings)).registry).decode()
    assert f'kernel="{label}"' in next(line for line in shown.splitlines() if line.startswith("ragweir_build_info{"))


def test_a_service_that_counts_nothing_names_nothing() -> None:
    shown = generate_latest(telemetry_of("aggregate", 0, SERVICES["aggregate"].known(Settings())).registry).decode()
    assert 'kernel=""' in shown


@pytest.mark.heavy
def test_doctor_names_what_counts(tmp_path: Any) -> None:
    done = ragweir(
        "doctor", folder=tmp_path, RAGWEIR_KERNEL__USE="never", RAGWEIR_KAFKA__BOOTSTRAP_SERVERS="127.0.0.1:9"
    )
    printed = " ".join(done.stdout.decode().split())
    assert (
        'ok kernel: texts are counted in Python, with the same results at a lower speed: kernel.use is "never"'
        in printed
    )


def test_the_python_library_takes_the_setting() -> None:
    event = {"event_id": "1", "ended_at": "2026-11-21T10:00:00Z", "query": "Who?", "response": "Ada Lovelace."}
    made = [library.score(event, settings={"kernel": {"use": use}}) for use in ("auto", "never")]
    assert made[0] == made[1]
