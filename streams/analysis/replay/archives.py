"""Archives of interactions, files of any format that is read, loaded into the topic of a run.

The number of the last loaded line is written to the run's record topic in the same transaction as the events, so that
each line is loaded once, however often loading is interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from ragweir.schemas.codec.decoder import Decoder
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.run import Archive, Loaded
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.analysis.replay.runs import loaded_record
from ragweir.streams.files.events import read_events
from ragweir.streams.runtime.kafka.transactional_sender import TransactionalSender
from ragweir.streams.services.shared.from_settings import decoder
from ragweir.streams.settings import Settings

_BATCH_LINES = 1_000
_OVERHEAD_BYTES = 16 * 1024
"""Allowance for the parts of a Kafka record other than its value."""


def load_archives(
    settings: Settings,
    archives: Sequence[Archive],
    read_loaded: Callable[[], Loaded],
    on_progress: Callable[[int, int], None],
    is_stopped: Callable[[], bool],
) -> Loaded:
    """Load the lines that are not loaded yet, until the end of the last archive or until `is_stopped` is true.

    Args:
        settings: the run's settings.
        archives: the files, in order.
        read_loaded: returns the stored progress; called once no earlier transaction is open.
        on_progress: called with a file's number and the bytes that were read of it, compressed as they are, since the
            last call.
        is_stopped: called before each batch.

    Raises:
        PermanentError: if a file cannot be read or Kafka rejects a transaction; the same call resumes.
    """
    sender = TransactionalSender(settings, "load", "the archive")
    loaded = read_loaded()  # After the sender has aborted an open transaction, not before.
    max_bytes = max_record_bytes(settings.limits.max_event_bytes) - _OVERHEAD_BYTES
    topic, line_decoder = f"{settings.topics.prefix}interactions", decoder(settings)
    for number in range(loaded.file, len(archives)):
        last = loaded.line if number == loaded.file else 0
        on_bytes = partial(on_progress, number)
        lines = read_events(Path(archives[number].path), max_bytes, on_bytes)
        remaining = (numbered for numbered in lines if numbered[0] > last)
        while batch := list(islice(remaining, _BATCH_LINES)):
            if is_stopped():
                return loaded
            fitting = [line for _, line in batch if len(line) <= max_bytes]
            left_out = loaded.left_out + len(batch) - len(fitting)
            loaded = Loaded(file=number, line=batch[-1][0], left_out=left_out)
            with sender.transaction():
                for line in fitting:
                    sender.produce(topic, line, _key(line_decoder, line))
                sender.produce(*loaded_record(settings, loaded))
    return loaded


def _key(line_decoder: Decoder, line: bytes) -> bytes | None:
    """Return the id of the first event in a line; None if there is none and the line may become a dead letter.

    >>> from ragweir.schemas.codec.decoder import JsonDecoder
    >>> _key(JsonDecoder(), b'{"event_id": 7, "query": "", "response": ""}'), _key(JsonDecoder(), b"?")
    (b'7', None)
    """
    events = (event for event in line_decoder.decode(line) if isinstance(event, Interaction))
    return next((event.event_id.encode() for event in events), None)
