"""Event-driven streaming evaluation of RAG traffic on Kafka.

The code is `ragweir.schemas` (the records), `ragweir.metrics` (pure functions over them) and `ragweir.streams` (how
records flow). Importing one of them loads nothing of those behind it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragweir.streams.publish import Publisher, publish

__all__ = ["Publisher", "publish"]

_MODULES = {
    "Publisher": "ragweir.streams.publish",
    "publish": "ragweir.streams.publish",
}
"""Modules of the public names, which are imported where a name is first used."""


def __getattr__(name: str) -> Any:
    if (module := _MODULES.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(module), name)
    return value
