"""Ready maps: the maps of other tools' exports, by the name of the tool."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

PRODUCTS: Mapping[str, str] = {
    "ragas": "ragas",
    "langfuse": "Langfuse",
    "langsmith": "LangSmith",
    "trulens": "TruLens",
    "deepeval": "DeepEval",
}
"""The ready maps, with the names of the products."""

READY_MAPS = tuple(PRODUCTS)

SIGNATURES: Mapping[str, tuple[frozenset[str], ...]] = {
    "ragas": (frozenset({"user_input", "response"}),),
    "langfuse": (
        frozenset({"input", "output", "timestamp", "sessionId"}),
        frozenset({"input", "output", "traceId", "startTime"}),
        frozenset({"input", "output", "trace_id", "start_time", "project_id"}),
    ),
    "langsmith": (frozenset({"inputs", "run_type", "trace_id"}),),
    "trulens": (
        frozenset({"record_id", "app_id", "input"}),
        frozenset({"record_id", "app_id", "main_input"}),
        frozenset({"record", "record_attributes", "record_type"}),
    ),
    "deepeval": (frozenset({"input", "actual_output"}), frozenset({"input", "actualOutput"})),
}
"""For each ready map the names at the top of an event, any set of which tells the product."""


def ready_map(name: str) -> str:
    """Return the TOML of a ready map.

    >>> print(ready_map("ragas").splitlines()[0])
    # Exports of ragas: EvaluationDataset and EvaluationResult as JSONL, CSV, JSON or Parquet.

    Args:
        name: a name of `READY_MAPS`.
    """
    return files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
