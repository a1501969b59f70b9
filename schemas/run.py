"""The run record: the input, settings and progress of one replay."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeInt, StringConstraints

from ragweir.schemas.interaction import RecordPart, Time

RUN_ID = r"[A-Za-z0-9_-]{1,60}"
"""Pattern of run ids. They have no dots, so that a run's topics cannot have the names of another run's."""

Phase = Literal["loading", "evaluating", "judging", "summing", "complete"]
JudgeMode = Literal["never", "cached-only", "budget"]


class Extent(RecordPart):
    """The offsets of one partition that are read, from `start` to before `end`."""

    topic: str
    """Name of the topic."""
    partition: int
    """Number of the partition."""
    start: NonNegativeInt
    """First offset."""
    end: NonNegativeInt
    """Offset behind the last one."""


class Archive(RecordPart):
    """A file that is read, as it was when the run began."""

    path: str
    """Path of the file."""
    size: NonNegativeInt
    """Size, in bytes."""


class ControlRead(RecordPart):
    """The part of the topic `control` whose routing rows select the events to judge."""

    omitted_values: ClassVar[Mapping[str, object]] = {"topic_id": ""}

    read_at: Time
    """Time at which the topic had these offsets. An event from 45 minutes after it on may lack a later row, and its
    evaluation has the flag `routing_ahead`."""
    extents: Annotated[tuple[Extent, ...], Field(min_length=1)]
    """The offsets of each partition."""
    topic_id: str = ""
    """Kafka's id of the topic, which one that is created again does not have; absent from runs of 0.1.0."""


class ReplayRequest(RecordPart):
    """The arguments of the command. A run is resumed only with the same ones."""

    omitted_values: ClassVar[Mapping[str, object]] = {"like": None}

    topic: str | None = None
    """Topic that is read, in place of the topic of interactions."""
    since: str | None = None
    """Begin: an offset, a time or a duration before now."""
    until: str | None = None
    """End: an offset, a time or a duration before now."""
    only: tuple[str, ...] = ()
    """Filters that events must fulfil."""
    judge: JudgeMode = "never"
    """Use of the judge."""
    budget_usd: Annotated[float, Field(ge=0)] | None = None
    """Maximum cost of judging, in dollars."""
    default_time: str | None = None
    """Time of events of files that have none, which are rejected without it."""
    like: str | None = None
    """Id of the run whose topic and offsets, or files, are read again; absent without one."""


class LiveSelection(RecordPart):
    """The live evaluations of a run's events, by the routing rows that selected the events to judge."""

    compared: NonNegativeInt
    """Number of live evaluations that name a row; those that Kafka holds no more are not counted."""
    otherwise: NonNegativeInt
    """Number of these whose row is not the one that the run has for the event: it was lost when the topic `control` was
    deleted or truncated, or it was not known yet when the event was evaluated."""
    first: str | None = None
    """Id of the first such event."""


class Run(RecordPart):
    """One replay."""

    omitted_values: ClassVar[Mapping[str, object]] = {"control": None, "live_selection": None}

    run_id: Annotated[str, StringConstraints(pattern=f"^{RUN_ID}$")]
    """Id of the run."""
    began_at: Time
    """Time at which the run was created."""
    ended_at: Time | None = None
    """Time at which the run was complete."""
    phase: Phase
    """Phase that the run has reached."""
    asked: ReplayRequest
    """Arguments of the command."""
    files: tuple[Archive, ...] = ()
    """Files that are read, if any."""
    topic: str
    """Topic of the interactions."""
    partitions: int
    """Number of partitions of each of the run's topics."""
    extents: tuple[Extent, ...] = ()
    """Empty until files are loaded."""
    control: ControlRead | None = None
    """The routing rows of the run; absent if there was no topic `control`, so that the shipped row holds."""
    live_selection: LiveSelection | None = None
    """Comparison of these rows with those of the live evaluations, once all events are evaluated; absent without a
    judge, and for files."""
    catalogue_version: str
    """Version of the formulas."""
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
