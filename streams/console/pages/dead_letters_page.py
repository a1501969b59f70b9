"""The page of dead letters: why records were rejected, the head of one, and the command that sends them again."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ragweir.errors import RagweirError
from ragweir.streams.analysis.dead_letters.letters import Letter, LetterGroup, group_letters, shown
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.rendering import render
from ragweir.streams.runtime.records import Record

_MOST_GROUPS = 100
_MOST_LETTERS = 20
"""Single dead letters of a group that are listed, the newest ones."""
_HEAD_BYTES = 2_000


class ShownGroup(NamedTuple):
    """Dead letters of one reason."""

    group: LetterGroup
    first: datetime | None
    last: datetime | None
    command: str
    """The command that sends those of the class again."""
    letters: list[Letter]


def dead_letters_routes(content: ConsoleContent) -> list[BaseRoute]:
    """Return the routes of the pages."""

    def dead_letters(request: Request) -> Response:
        stored = content.store.letters()
        letters = [
            Letter(_record(each.at, round(each.written.timestamp() * 1_000)), each.details, each.service)
            for each in stored
        ]
        groups, state = group_letters(letters, lambda _: False)[:_MOST_GROUPS], content.state()
        return render(
            request,
            "dead_letters.html",
            total=max(len(letters), state.kept.letters),
            listed=len(letters),
            has_topics=content.letter is not None,
            state=state,
            groups=[_shown(each, letters) for each in groups],
        )

    def dead_letter(request: Request) -> Response:
        at = request.path_params["partition"], request.path_params["offset"]
        try:
            found = content.letter(at) if content.letter and _is_position(*at) else None
        except RagweirError as error:
            raise HTTPException(503, str(error)) from None
        if found is None:
            raise HTTPException(404, "There is no dead letter at this position, or retention has deleted it.")
        is_shown = content.texts.mode == "on"
        return render(
            request,
            "dead_letter.html",
            letter=found,
            state=content.state(),
            written=_time(found.record.timestamp_ms),
            value=shown(found.record.value, _HEAD_BYTES) if is_shown else None,
            key=shown(found.record.key, 300) if is_shown else None,
            command=_command(found.details.error_class),
        )

    return [
        Route("/dead-letters", dead_letters),
        Route("/dead-letters/{partition:int}/{offset:int}", dead_letter),
    ]


def _record(at: tuple[int, int], written_ms: int) -> Record:
    return Record("", *at, None, None, written_ms)


def _is_position(partition: int, offset: int) -> bool:
    """Return whether Kafka's client takes numbers as a partition and an offset."""
    return partition < 2**31 and offset < 2**63


def _time(timestamp_ms: int | None) -> datetime | None:
    """Return the time of a timestamp; None if there is none, or it is none of a calendar's."""
    try:
        return None if timestamp_ms is None else datetime.fromtimestamp(timestamp_ms / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _command(error_class: str) -> str:
    return shlex.join(["ragweir", "dead-letter", "redrive", "--class", error_class, "--dry-run"])


def _shown(group: LetterGroup, letters: list[Letter]) -> ShownGroup:
    own = [each for each in letters if (each.service, each.details.error_class) == (group.service, group.error_class)]
    return ShownGroup(
        group, _time(group.first_ms), _time(group.last_ms), _command(group.error_class), own[:_MOST_LETTERS]
    )
