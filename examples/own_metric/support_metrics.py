"""Metrics of a support desk."""

from ragweir.metrics.metric import Metric, Null, Value
from ragweir.metrics.view import View

INTERNAL = frozenset({"backend", "crm", "escalation", "sla", "ticket", "tier", "workaround"})


def jargon_share(view: View) -> Value:
    """Share of the response's words that only colleagues understand.

    Formula: internal words / words of the response.
    Undefined: if the response has no words.
    """
    words = view.response.tokens
    return sum(word in INTERNAL for word in words) / len(words) if words else Null("the response has no words")


METRICS = (Metric(jargon_share, group="support", unit="ratio", better="lower", needs=(), source="our style guide"),)
