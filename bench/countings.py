"""The ways of counting texts that a table compares: in Python, and by the kernel where it is installed."""

from __future__ import annotations

from collections.abc import Mapping

from ragweir.metrics.view import Counting, reference
from ragweir.streams.kernel_choice import kernel_choice
from ragweir.streams.settings import KernelSettings

PYTHON, KERNEL = "Python", "kernel"


def countings() -> Mapping[str, Counting]:
    """Return each way by its name; Python alone where there is no kernel."""
    chosen = kernel_choice(KernelSettings())
    return {PYTHON: reference, **({KERNEL: chosen.counting} if chosen.version else {})}


def note() -> str:
    """Return which kernel is measured, or why none is."""
    chosen = kernel_choice(KernelSettings())
    return f"Kernel {chosen.version}." if chosen.version else f"Without the kernel: {chosen.reason}."
