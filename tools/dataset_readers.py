"""Reads the files of `ragweir dataset` with the SDKs of other tools, for the tests of these files.

It is run as a file, in an environment that has one of the packages and nothing of ragweir; no SDK opens a connection:

    python -m venv sdk && sdk/bin/pip install ragas==0.4.3 langchain-community==0.3.31
    sdk/bin/python tools/dataset_readers.py ragas tests/exports/datasets

tests/exports/README.md has the packages. It writes what the SDK understood beside the file, in the SDK's own names.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any


def _ragas(file: Path) -> list[dict[str, Any]]:
    from ragas import EvaluationDataset  # noqa: PLC0415

    return [each.model_dump(exclude_none=True) for each in EvaluationDataset.from_jsonl(file).samples]


def _deepeval(file: Path) -> list[dict[str, Any]]:
    from deepeval.dataset import EvaluationDataset  # noqa: PLC0415

    dataset = EvaluationDataset()
    dataset.add_goldens_from_json_file(str(file))
    return [each.model_dump(exclude_none=True) for each in dataset.goldens]


def _langfuse(file: Path) -> list[dict[str, Any]]:
    """Read request bodies; a name that the SDK does not know is recorded as unknown, since its models keep any."""
    from langfuse.api.core.pydantic_utilities import parse_obj_as  # noqa: PLC0415
    from langfuse.api.dataset_items.types.create_dataset_item_request import (  # noqa: PLC0415
        CreateDatasetItemRequest,
    )

    bodies = [parse_obj_as(CreateDatasetItemRequest, json.loads(line)) for line in file.read_bytes().splitlines()]
    return [
        {name: getattr(each, name) for name in type(each).model_fields} | {"unknown": sorted(each.model_extra or {})}
        for each in bodies
    ]


def _opik(file: Path) -> list[dict[str, Any]]:
    """Read items as `Dataset.read_jsonl_from_file` does before it inserts them."""
    from opik.api_objects.dataset.converters import from_jsonl_file  # noqa: PLC0415

    return [each.get_content() for each in from_jsonl_file(str(file), {}, [])]


_READERS: dict[str, tuple[str, Callable[[Path], list[dict[str, Any]]]]] = {
    "ragas": ("ragas.jsonl", _ragas),
    "deepeval": ("deepeval.json", _deepeval),
    "langfuse": ("langfuse.jsonl", _langfuse),
    "opik": ("opik.jsonl", _opik),
}

if __name__ == "__main__":
    package, folder = sys.argv[1], Path(sys.argv[2])
    name, read = _READERS[package]
    found = json.dumps(read(folder / name), indent=1, ensure_ascii=False)
    (folder / f"{package}-{version(package)}.json").write_text(found + "\n", encoding="utf-8")
