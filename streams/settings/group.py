"""The base class of all groups of settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict


class SettingsGroup(BaseModel):
    """A group of settings. An unknown name is an error, so that a typing mistake is not silently a default.

    The docstrings of fields are the reference's, which reads the source: pydantic would do so whenever ragweir starts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


def names_at(model: type[BaseModel], path: Iterable[object]) -> list[str]:
    """Return the names of the settings of the table at a path, such as `("routing", "rules", 0)`."""
    models = [model]
    for step in path:
        if fields := [each.model_fields[step] for each in models if step in each.model_fields]:
            models = [found for field in fields for found in _models(field.annotation)]
    return [name for each in models for name in each.model_fields]


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models within an annotation, such as `tuple[Rule, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)
