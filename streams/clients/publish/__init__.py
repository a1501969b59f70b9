"""Publishing of interactions by applications; imports no more than the standard library until the first event."""

from ragweir.streams.clients.publish.publisher import Publisher

__all__ = ["Publisher", "publish"]

publish = Publisher()
"""The publisher of `ragweir.publish`, whose settings are those of `ragweir.toml` and the environment."""
