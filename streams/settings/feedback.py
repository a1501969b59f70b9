"""Settings of feedback."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator

from ragweir.schemas.window import duration_s
from ragweir.streams.settings.group import SettingsGroup

_LONGEST_S = 30 * 86_400


def _horizon(text: str) -> str:
    if not 3600 <= duration_s(text) <= _LONGEST_S:
        raise ValueError("must be from 1h to 30d, for which evaluations are kept")
    return text


class FeedbackSettings(SettingsGroup):
    """Feedback of users, and how long answer and feedback are waited for."""

    enabled: bool = False
    """True if `ragweir up` runs the services of `ragweir feedback`."""
    horizon: Annotated[str, AfterValidator(_horizon)] = "7d"
    """Longest time between an evaluation and feedback on its answer, whichever is first: feedback is joined to answers
    that were evaluated at most this long ago, and waits this long for one that is not evaluated yet."""
    folder: Path | None = None
    """Folder for the store of the answers that can get feedback; it is made again from the topic if it is lost. Unset:
    `ragweir/feedback` in the user's cache."""

    @property
    def horizon_s(self) -> int:
        """The horizon in seconds."""
        return duration_s(self.horizon)
