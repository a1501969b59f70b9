"""The command line: one module per command or group of commands."""

from streams.cli import demo, doctor, metrics, publish, score, services, simulate_judge, slo, tap, topics
from streams.cli.app import app, main

__all__ = [
    "app",
    "demo",
    "doctor",
    "main",
    "metrics",
    "publish",
    "score",
    "services",
    "simulate_judge",
    "slo",
    "tap",
    "topics",
]
