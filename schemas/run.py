"""The run record: what a replay reads, by which settings, and how far it has come."""

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, StringConstraints

from ragweir.schemas.interaction import RecordPart, Time

RUN_ID = r"[A-Za-z0-9_-]{1,60}"
"""Without dots: a run's topics must not look like those of another."""

Phase = Literal["loading", "evaluating", "judging", "summing", "complete"]
JudgeMode = Literal["never", "cached-only", "budget"]


class Extent(RecordPart):
    """What is read of one partition: the offsets from `start` to before `end`."""

    topic: str
    partition: int
    start: NonNegativeInt
    end: NonNegativeInt


class Archive(RecordPart):
    """A file that is read, as it was when the run began."""

    path: str
    size: NonNegativeInt


class ReplayRequest(RecordPart):
    """What the command asked for, in its own words: a run is gone on with only by the same."""

    topic: str | None = None
    since: str | None = None
    until: str | None = None
    only: tuple[str, ...] = ()
    judge: JudgeMode = "never"
    budget_usd: Annotated[float, Field(ge=0)] | None = None


class Run(RecordPart):
    """One replay."""

    run_id: Annotated[str, StringConstraints(pattern=f"^{RUN_ID}$")]
    began_at: Time
    ended_at: Time | None = None
    phase: Phase
    asked: ReplayRequest
    files: tuple[Archive, ...] = ()
    topic: str
    """Of the interactions; what is in a foreign shape there is read through the settings' map."""
    partitions: int
    """Of each of the run's topics."""
    extents: tuple[Extent, ...] = ()
    """Not known before files are loaded."""
    catalogue_version: str
    fingerprint: str
    """A digest of all settings that results depend on, secrets included by a slow hash that is the run's own."""
    settings: dict[str, Any]
    """Those settings, with their secrets masked."""


class Loaded(RecordPart):
    """How far a run's files are loaded: written with the events, in the same transaction."""

    file: NonNegativeInt = 0
    """The number of the file, from 0."""
    line: NonNegativeInt = 0
    """The last line that was loaded."""
    left_out: NonNegativeInt = 0
    """Lines that are larger than what Kafka would take."""
