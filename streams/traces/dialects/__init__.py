"""The dialects: one table of attribute paths per convention, in the order in which they are tried."""

from __future__ import annotations

from ragweir.streams.traces.dialects.gen_ai import GenAi
from ragweir.streams.traces.dialects.openinference import OpenInference
from ragweir.streams.traces.dialects.traceloop import Traceloop
from ragweir.streams.traces.step import Dialect

DIALECTS: tuple[Dialect, ...] = (GenAi(), OpenInference(), Traceloop())
"""The dialects in the order in which they are tried."""
