"""The command line: one module per command or group of commands."""

from streams.cli import (
    compare,
    dead_letter,
    demo,
    doctor,
    explain,
    metrics,
    publish,
    replay,
    runs,
    score,
    services,
    simulate_judge,
    slo,
    tap,
    topics,
)
from streams.cli.app import app, main

__all__ = [
    "app",
    "compare",
    "dead_letter",
    "demo",
    "doctor",
    "explain",
    "main",
    "metrics",
    "publish",
    "replay",
    "runs",
    "score",
    "services",
    "simulate_judge",
    "slo",
    "tap",
    "topics",
]
