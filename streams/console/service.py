"""The console as a service: one process follows the topics and serves the pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ragweir.errors import PermanentError
from ragweir.streams.services.console import NAME, PACKAGES, PORT
from ragweir.streams.services.export.service import ProjectionService
from ragweir.streams.services.slot import run_projection
from ragweir.streams.settings import Settings

if TYPE_CHECKING:
    from ragweir.streams.runtime.projection import Projection


def _projection(settings: Settings) -> Projection:
    from ragweir.streams.console.store.topic_projection import ConsoleProjection  # noqa: PLC0415 - not for others

    return ConsoleProjection(settings)


SERVICE = ProjectionService(
    NAME,
    help="",  # The command has options of its own.
    projection=_projection,
    port=PORT,
    enabled=lambda settings: settings.console.enabled,
)


def check_packages() -> None:
    """Check that the packages of the extra are installed.

    Raises:
        PermanentError: if one is missing.
    """
    if missing := next((name for name in PACKAGES if find_spec(name) is None), None):
        raise PermanentError(f"the console needs the package {missing}: pip install 'ragweir[console]'")


def check(settings: Settings) -> None:
    """Check that the console can start with these settings.

    Raises:
        ConfigurationError: if the settings cannot be used.
        PermanentError: if a package is missing.
    """
    from ragweir.streams.console.safety.authentication import kept_token  # noqa: PLC0415 - of an extra

    check_packages()
    kept_token(settings.console)


def run(
    settings: Settings,
    slot: int,
    stopped: Callable[[], bool],
    say: Callable[[str], None],
    *,
    is_seen_by_person: bool = False,
) -> None:
    """Follow the topics and serve the pages until `stopped` returns true.

    Args:
        settings: all settings.
        slot: the slot's number on this host.
        stopped: returns true once the slot is to stop.
        say: shows the address of the pages.
        is_seen_by_person: true if `say` writes to a terminal, which may show the token.

    Raises:
        PermanentError, ConfigurationError: if a restart would not help.
        RestartRequired: if a new process has to go on.
    """
    from ragweir.streams.console.application import application  # noqa: PLC0415 - of an extra
    from ragweir.streams.console.from_topics import content_of_topics  # noqa: PLC0415
    from ragweir.streams.console.pages.review import review_routes  # noqa: PLC0415
    from ragweir.streams.console.pages.routes import page_routes  # noqa: PLC0415
    from ragweir.streams.console.request_counts import RequestCounts  # noqa: PLC0415
    from ragweir.streams.console.review_desk import ReviewDesk  # noqa: PLC0415
    from ragweir.streams.console.review_queues import topic_queue  # noqa: PLC0415
    from ragweir.streams.console.safety.authentication import kept_login, kept_token  # noqa: PLC0415
    from ragweir.streams.console.store.topic_projection import ConsoleProjection  # noqa: PLC0415
    from ragweir.streams.console.web_server import listen, served  # noqa: PLC0415

    own, counts = settings.console, RequestCounts()
    token = kept_token(own)
    with listen(own) as (listening, address), content_of_topics(settings, counts) as content:
        projection = ConsoleProjection(settings, lambda: content.store.is_damaged, counts.drain)
        projection.open()  # So that the pages find a store.
        projection.close()
        desk = ReviewDesk(settings, lambda: topic_queue(settings, content.texts), content.seen.has)
        pages = [*page_routes(content), *review_routes(desk, "ragweir labels draw", content.state)]
        with served(application(pages, own, token, counts), listening, counts):
            login = kept_login(own, token, is_seen_by_person=is_seen_by_person)
            say(f"The answers of {settings.topics.prefix}evaluations are shown at {address}{login}")
            run_projection(replace(SERVICE, projection=lambda _: projection), settings, slot, stopped)
