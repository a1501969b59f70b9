"""The run record: the input, settings and progress of one replay."""

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, StringConstraints

from ragweir.schemas.interaction import RecordPart, Time

RUN_ID = r"[A-Za-z0-9_-]{1,60}"
"""Pattern of run ids. They have no dots, so that a run's topics cannot have the names of another run's."""

Phase = Literal["loading", "evaluating", "judging", "summing", "complete"]
JudgeMode = Literal["never", "cached-only", "budget"]


class Extent(RecordPart):
    """The offsets of one partition that are read, from `start` to before `end`."""

    topic: str
    partition: int
    start: NonNegativeInt
    end: NonNegativeInt


class Archive(RecordPart):
    """A file that is read, as it was when the run began."""

    path: str
    size: NonNegativeInt


class ReplayRequest(RecordPart):
    """The arguments of the command. A run is resumed only with the same ones."""

    topic: str | None = None
    since: str | None = None
    until: str | None = None
    only: tuple[str, ...] = ()
    judge: JudgeMode = "never"
    budget_usd: Annotated[float, Field(ge=0)] | None = None
    default_time: str | None = None
    """Time of events of files that have none, which are rejected without it."""


class Run(RecordPart):
    """One replay."""

    run_id: Annotated[str, StringConstraints(pattern=f"^{RUN_ID}$")]
    began_at: Time
    ended_at: Time | None = None
    phase: Phase
    asked: ReplayRequest
    files: tuple[Archive, ...] = ()
    topic: str
    """Topic of the interactions."""
    partitions: int
    """Number of partitions of each of the run's topics."""
    extents: tuple[Extent, ...] = ()
    """Empty until files are loaded."""
    catalogue_version: str
    fingerprint: str
    """Digest of all settings that results depend on; of secrets, a slow salted hash."""
    settings: dict[str, Any]
    """Those settings, with secrets masked."""


class Loaded(RecordPart):
    """Progress of loading a run's files, written with the events in the same transaction."""

    file: NonNegativeInt = 0
    """Number of the file, from 0."""
    line: NonNegativeInt = 0
    """Number of the last line that was loaded."""
    left_out: NonNegativeInt = 0
    """Number of lines over Kafka's size limit."""
