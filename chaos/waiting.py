"""Waiting for a condition, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from confluent_kafka import KafkaException


def wait_for(condition: Callable[[], object], within_s: float, every_s: float = 0.1) -> bool:
    """Wait until a condition is true; return False if it is not within the time. A KafkaException means not yet.

    >>> wait_for(lambda: True, 0), wait_for(lambda: False, 0)
    (True, False)
    """
    until = time.monotonic() + within_s
    while True:
        with suppress(KafkaException):
            if condition():
                return True
        if time.monotonic() >= until:
            return False
        time.sleep(every_s)


def require(condition: Callable[[], object], within_s: float, otherwise: str, every_s: float = 0.1) -> None:
    """Wait until a condition is true; raise TimeoutError with a sentence if it is not within the time."""
    if not wait_for(condition, within_s, every_s):
        raise TimeoutError(otherwise)
