"""Publishing by applications; imports no more than the standard library until the first interaction or feedback."""

from ragweir.streams.clients.publish.publisher import Publisher

__all__ = ["Publisher", "feedback", "publish"]

publish = Publisher()
"""The publisher of `ragweir.publish`, whose settings are those of `ragweir.toml` and the environment."""

feedback = publish.feedback
"""Publishes feedback by the publisher of `ragweir.publish`."""
