"""Ready maps of labels: the maps of people's verdicts in other tools' exports, by the name of the tool."""

from __future__ import annotations

from importlib.resources import files

LABEL_MAPS = ("label-studio", "langfuse", "langsmith", "phoenix")
"""The ready maps of labels."""


def label_map(name: str) -> str:
    """Return the TOML of a ready map of labels.

    >>> print(label_map("phoenix").splitlines()[0])
    # Span annotations of Phoenix: `get_span_annotations` as JSON, and its data frame as JSON, CSV or Parquet.

    Args:
        name: a name of `LABEL_MAPS`.
    """
    return files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
