"""Tries a new schema in a process of its own, within limits of memory and time, before the worker reads it.

A schema of a few kilobytes can need any amount of both. One that ends the process is rejected.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import orjson

from ragweir.errors import Rejected, TransientError
from ragweir.schemas.registry.readers import read_schema, reader_of
from ragweir.schemas.registry.schema import Schema, unknown
from ragweir.streams.runtime.awake import done_in_time
from ragweir.streams.runtime.processes.child_python import python_command
from ragweir.streams.runtime.processes.limits import OUT_OF_MEMORY, OUTSIDE, cause_of, limit_memory, limit_time

CPU_SECONDS = 5
"""CPU time limit of one schema. A megabyte of usual records and fields takes a quarter of a second."""
MEMORY_BYTES = 64 * 1024 * 1024
"""Memory limit of one schema. The same takes 20 MB."""
WALL_SECONDS = 30.0
"""Time limit of a process, from its start to its end."""
_TRIES = 2
"""The number of processes that may be ended from outside."""
_READY = b"r"
"""The first byte of an answer: from there on, the end of the process is the schema's fault."""


def tried(schema_id: int, schema: Schema, form: str) -> Rejected | None:
    """Return the rejection of a schema's records if it cannot be used, or reading it ends a process.

    Args:
        schema_id: the schema's id.
        schema: the schema.
        form: `avro`, `protobuf` or `jsonschema`.

    Raises:
        TransientError: if no process can be started.
    """
    request = orjson.dumps((schema_id, *schema))
    why = ""
    for _ in range(_TRIES):
        status, answer = _answer(request, form)
        if not answer.startswith(_READY):
            raise TransientError(f"the process that tries schemas does not start (status {status})")
        if status == 0:
            message = answer.removeprefix(_READY).decode()
            return Rejected("unknown_schema", message) if message else None
        if status is None:
            why = f"it takes longer than {WALL_SECONDS:.0f} s"
            break
        why = cause_of(status, "a schema")
        if status not in OUTSIDE:
            break
    return unknown(schema_id, f"cannot be used: {why}")


def _answer(request: bytes, form: str) -> tuple[int | None, bytes]:
    """Return the exit status of a process, None if it had to be ended, and its answer."""
    command = python_command("-c", f"from {__name__} import serve; serve({form!r}, {CPU_SECONDS}, {MEMORY_BYTES})")
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise TransientError(f"the process that tries schemas does not start: {error}") from None
    answer = bytearray()
    thread = threading.Thread(target=lambda: answer.extend(process.communicate(request)[0]), daemon=True)

    def ends(seconds: float) -> bool:
        thread.join(seconds)
        return not thread.is_alive()

    with process:
        thread.start()
        try:
            # A suspended or starved machine is no fault of the schema.
            is_done = done_in_time(ends, WALL_SECONDS)
        finally:
            process.kill()
            thread.join()
    return (process.returncode if is_done else None), bytes(answer)


def serve(form: str, cpu_seconds: int, memory_bytes: int) -> None:
    """Read the schema from standard input; write why it cannot be used, or nothing."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The worker handles Ctrl-C.
    make = read_schema(form)
    limit_memory(memory_bytes)
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    schema_id, kind, text, references = orjson.loads(sys.stdin.buffer.read())
    limit_time(cpu_seconds)
    try:
        made = reader_of(schema_id, Schema(kind, text, tuple(references)), form, make)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    if isinstance(made, Rejected):
        sys.stdout.buffer.write(made.message.encode())
        sys.stdout.buffer.flush()
    # The end of a process that frees what it has read would take time.
    os._exit(0)
