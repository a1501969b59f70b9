"""Locks of files, which end with the process that holds them."""

from __future__ import annotations


def lock(descriptor: int) -> bool:
    """Lock an open file for this process, where the system has such locks; returns false if another one has it."""
    try:
        import fcntl  # noqa: PLC0415 - there is none on Windows
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
