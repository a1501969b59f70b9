"""Archives of interactions, JSON lines or Parquet, loaded into a run's topic: each line once, however often it begins.

How far it came stands in the run's own topic and is written with the events, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from ragweir.errors import PermanentError
from ragweir.schemas.codec.decoder import Decoder
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.run import Archive, Loaded
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.kafka.transactional_sender import TransactionalSender
from ragweir.streams.replay.runs import loaded_record
from ragweir.streams.runtimes.files import read_lines
from ragweir.streams.settings import Settings

_BATCH = 1_000
_ROOM_BYTES = 16 * 1024
"""Of a record beside its value."""

Lines = Iterator[tuple[int, bytes]]


def lines(archive: Path, max_bytes: int) -> Lines:
    """The events of an archive with their numbers, from 1; of a larger one the first `max_bytes` + 1 bytes.

    Raises:
        PermanentError: if it cannot be read.
    """
    try:
        if archive.suffix.lower() == ".parquet":
            yield from _rows(archive)
        else:
            with archive.open("rb") as source:
                yield from read_lines(source, max_bytes, str(archive))
    except OSError as error:
        raise PermanentError(f"{archive} cannot be read: {error.strerror}") from None


def _rows(archive: Path) -> Lines:
    """A Parquet file's rows as JSON objects, one column a field."""
    try:
        import duckdb  # noqa: PLC0415 - JSON lines need none
    except ModuleNotFoundError:
        raise PermanentError("Parquet needs the package duckdb; pip install 'ragweir[compare]' brings it") from None
    with duckdb.connect(config={"memory_limit": "512MB", "autoinstall_known_extensions": "false"}) as db:
        try:
            # Times with a zone are written as UTC; those without are taken as UTC, as in JSON.
            db.execute("set timezone = 'UTC'")
            rows = db.execute("select to_json(t)::blob from read_parquet($file) t", {"file": str(archive)})
            number = 0
            while found := rows.fetchmany(_BATCH):
                for (row,) in found:
                    number += 1
                    yield number, row
        except duckdb.Error as error:
            raise PermanentError(f"{archive} cannot be read: {str(error).splitlines()[0]}") from None


def load(
    settings: Settings,
    run_id: str,
    run: Settings,
    archives: Sequence[Archive],
    reached: Callable[[], Loaded],
    event_id: Callable[[bytes], str | None],
    moved: Callable[[int, int], None],
    stopped: Callable[[], bool],
) -> Loaded:
    """Load what is not loaded yet, or as much as there is until told to stop.

    Args:
        settings: of the live system, for the run's record.
        run_id: of the run.
        run: its own settings.
        archives: the files, in their order.
        reached: gives how far it came.
        event_id: the id in a line, for its key; None if there is none.
        moved: is told the number of a file, and how many more bytes of it are passed.
        stopped: says whether to stop.

    Raises:
        PermanentError: if a file cannot be read, or Kafka does not take it; the same call goes on where it is.
    """
    sending = TransactionalSender(run, "load", "the archive")
    loaded = reached()  # Now that whatever was under way is settled, and not before.
    most = max_record_bytes(run.limits.max_event_bytes) - _ROOM_BYTES
    topic = f"{run.topics.prefix}interactions"
    for number in range(loaded.file, len(archives)):
        behind = loaded.line if number == loaded.file else 0
        rest = _behind(lines(Path(archives[number].path), most), behind)
        while batch := list(islice(rest, _BATCH)):
            if stopped():
                return loaded
            fitting = [line for _, line in batch if len(line) <= most]
            left_out = loaded.left_out + len(batch) - len(fitting)
            loaded = Loaded(file=number, line=batch[-1][0], left_out=left_out)
            with sending.transaction():
                for line in fitting:
                    key = event_id(line)
                    sending.produce(topic, line, None if key is None else key.encode())
                sending.produce(*loaded_record(settings, run_id, loaded))
            moved(number, sum(len(line) + 1 for _, line in batch))
    return loaded


def _behind(every: Lines, line: int) -> Lines:
    return (each for each in every if each[0] > line)


def id_reader(decoder: Decoder) -> Callable[[bytes], str | None]:
    """Return what gives the id of the first event in a line; None where it holds none, and may become a dead letter.

    >>> from ragweir.schemas.codec.decoder import JsonDecoder
    >>> first_id = id_reader(JsonDecoder())
    >>> first_id(b'{"event_id": 7, "query": "", "response": ""}'), first_id(b"?")
    ('7', None)
    """

    def event_id(line: bytes) -> str | None:
        return next((event.event_id for event in decoder.decode(line) if isinstance(event, Interaction)), None)

    return event_id
