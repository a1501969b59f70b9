"""The alerts: those of every SLO, and those on ragweir itself."""

from __future__ import annotations

from ragweir.streams.analysis.slo import shipped
from tools.reference.markdown import plain, table


def page() -> str:
    """Return the generated part of the page."""
    return table(shipped.HEAD, ((name, severity, plain(text), next_) for name, severity, text, next_ in shipped.rows()))
