"""Event-driven streaming evaluation of RAG traffic on Kafka, and its metrics as a library.

    score           score an event, or an iterable of events
    score_frame     score the rows of a pandas or polars data frame
    explain         show the value, or the reason for none, and the evidence of each metric for an event
    compare         compare two evaluations of the same events
    blame           find which documents, versions or other values carry the excess of bad answers
    dataset         make a regression set of the answers that people or scores found bad
    catalogue       the metrics by name
    publish         record an application's interactions, and send them to Kafka
    feedback        send what users say of answers to Kafka

The other names are types of their arguments, results and errors. Each is imported on first use; `import ragweir` alone
loads nothing else. The code is in `ragweir.schemas` (the records), `ragweir.metrics` (pure functions over them) and
`ragweir.streams` (how records flow). Importing one of them loads nothing of those behind it.
"""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType

TYPE_CHECKING = False  # That of `typing` takes longer than everything else here.

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ragweir.errors import ConfigurationError, MapError, PermanentError, RagweirError, Rejected
    from ragweir.metrics.metric import Metric
    from ragweir.schemas.evaluation import Evaluation
    from ragweir.streams.analysis.blame.blame_report import BlameReport
    from ragweir.streams.analysis.compare.comparison import Comparison
    from ragweir.streams.analysis.dataset.building import Dataset
    from ragweir.streams.clients.publish import Publisher, feedback, publish
    from ragweir.streams.library.comparing import compare
    from ragweir.streams.library.datasets import dataset
    from ragweir.streams.library.explaining import Explanation, catalogue, explain
    from ragweir.streams.library.finding_causes import blame
    from ragweir.streams.library.frames import score_frame
    from ragweir.streams.library.scoring import score
    from ragweir.streams.settings import Settings

__all__ = [
    "BlameReport",
    "Comparison",
    "ConfigurationError",
    "Dataset",
    "Evaluation",
    "Explanation",
    "MapError",
    "Metric",
    "PermanentError",
    "Publisher",
    "RagweirError",
    "Rejected",
    "Settings",
    "blame",
    "catalogue",
    "compare",
    "dataset",
    "explain",
    "feedback",
    "publish",
    "score",
    "score_frame",
]

_MODULES: Mapping[str, str] = MappingProxyType(
    {
        "BlameReport": "ragweir.streams.analysis.blame.blame_report",
        "Comparison": "ragweir.streams.analysis.compare.comparison",
        "ConfigurationError": "ragweir.errors",
        "Dataset": "ragweir.streams.analysis.dataset.building",
        "Evaluation": "ragweir.schemas.evaluation",
        "Explanation": "ragweir.streams.library.explaining",
        "MapError": "ragweir.errors",
        "Metric": "ragweir.metrics.metric",
        "PermanentError": "ragweir.errors",
        "Publisher": "ragweir.streams.clients.publish",
        "RagweirError": "ragweir.errors",
        "Rejected": "ragweir.errors",
        "Settings": "ragweir.streams.settings",
        "blame": "ragweir.streams.library.finding_causes",
        "catalogue": "ragweir.streams.library.explaining",
        "compare": "ragweir.streams.library.comparing",
        "dataset": "ragweir.streams.library.datasets",
        "explain": "ragweir.streams.library.explaining",
        "feedback": "ragweir.streams.clients.publish",
        "publish": "ragweir.streams.clients.publish",
        "score": "ragweir.streams.library.scoring",
        "score_frame": "ragweir.streams.library.frames",
    }
)
"""The module of each public name."""


if not TYPE_CHECKING:  # Type checkers would take any name as public.

    def __getattr__(name: str) -> object:
        """Import a public name on its first use."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
