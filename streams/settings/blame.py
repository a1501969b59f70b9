"""Settings of `ragweir blame`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragweir.streams.settings.group import SettingsGroup


class BlameSettings(SettingsGroup):
    """What `ragweir blame` keeps in memory."""

    max_documents: Annotated[int, Field(ge=1000, le=100_000_000)] = 2_000_000
    """Maximum number of different documents, chunks and other values that are tested. Above it half of them by hash
    are left out, and half again, and the share that is kept is printed. A million takes about 200 MB."""
