"""The base class of all groups of settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SettingsGroup(BaseModel):
    """A group of settings. An unknown name is an error, so that a typing mistake is not silently a default.

    The docstrings of fields are the reference's, which reads the source: pydantic would do so whenever ragweir starts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
