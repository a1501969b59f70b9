"""Ids of events: UUIDs of version 7, which sort by time."""

from __future__ import annotations

from ragweir.streams.runtime.machine import machine


def event_id(epoch_ns: int) -> str:
    """Return a new UUID of version 7: its first 48 bits are the time in milliseconds, 74 of the others are random.

    >>> event_id(0)[:15], event_id(10**18) < event_id(10**18 + 10**6)
    ('00000000-0000-7', True)
    """
    # A generator of random numbers would repeat itself in forked processes; the system's does not.
    random = int.from_bytes(machine.bytes(10), "big")
    milliseconds = epoch_ns // 1_000_000 & (1 << 48) - 1
    text = f"{milliseconds:012x}{0x7000 | random >> 68:04x}{0x8 << 60 | random & (1 << 62) - 1:016x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
