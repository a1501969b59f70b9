"""Settings of `ragweir blame`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints

from ragweir.streams.settings.group import SettingsGroup


class Silence(SettingsGroup):
    """A cause that is known, with the reason why it is no failure, and the time until which."""

    facets: Annotated[Mapping[str, str], Field(min_length=1)]
    """Values of the cause by facet, such as `{ document = "d7" }`. A cause that has these and others is silenced too,
    one without them that is within it is not."""
    reason: Annotated[str, StringConstraints(min_length=1, max_length=500, strip_whitespace=True)]
    """Reason, which is shown with the cause."""
    until: AwareDatetime
    """End of the silence."""
    metric: str | None = None
    """Metric of the causes. Unset: all metrics."""


class BlameSettings(SettingsGroup):
    """The search for causes of bad answers, `ragweir blame`, and the causes that are silenced."""

    enabled: bool = False
    """True to write a row for each event to the topic `documents`, about 200 bytes, from which `ragweir blame` finds
    causes without a file."""

    max_documents: Annotated[int, Field(ge=1000, le=100_000_000)] = 2_000_000
    """Maximum number of different documents, chunks and other values that are tested. Above it half of them by hash
    are left out, and half again, and the share that is kept is printed. A million takes about 200 MB."""
    silenced: tuple[Silence, ...] = ()
    """Causes that are shown as silenced, and are no failures by `--fail-on`; each is a table `[[blame.silenced]]`."""
