"""JSON Schemas of the records, for programs that are not Python, and the numbers of Protobuf's fields.

`python -m ragweir.schemas.export` writes them.
"""

from pathlib import Path
from typing import Literal

import orjson
from pydantic import BaseModel

from ragweir.schemas.assembly import AssemblyEntry, ClockMark
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.document_rows import DocumentRows
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.feedback import Feedback, JoinedFeedback, KeyedFeedback, UnmatchedFeedback, WaitingFeedback
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.judging import AnchorResult, JudgeRequest, LedgerEntry
from ragweir.schemas.label import Draw, Label, QueuedAnswer
from ragweir.schemas.registry.output_protobuf import NUMBERS_FILE, field_numbers, with_new_fields
from ragweir.schemas.registry.output_schemas import RECORDS as OUTPUT_RECORDS
from ragweir.schemas.registry.output_schemas import avro_schema
from ragweir.schemas.routing_row import RoutingRow
from ragweir.schemas.run import Run
from ragweir.schemas.window import Window

FOLDER = Path(__file__).parent / "json"
NUMBERS = Path(__file__).parent / "registry" / NUMBERS_FILE

RECORDS: dict[str, tuple[type[BaseModel], Literal["validation", "serialization"]]] = {
    "interaction": (Interaction, "validation"),
    "evaluation": (Evaluation, "serialization"),
    "dead_letter": (DeadLetter, "serialization"),
    "document_rows": (DocumentRows, "serialization"),
    "window": (Window, "serialization"),
    "judge_request": (JudgeRequest, "serialization"),
    "judge_ledger": (LedgerEntry, "serialization"),
    "anchor_result": (AnchorResult, "serialization"),
    "clock_mark": (ClockMark, "serialization"),
    "assembly_entry": (AssemblyEntry, "serialization"),
    "run": (Run, "serialization"),
    "routing_row": (RoutingRow, "serialization"),
    "label": (Label, "validation"),
    "draw": (Draw, "serialization"),
    "queued_answer": (QueuedAnswer, "serialization"),
    "feedback": (Feedback, "validation"),
    "keyed_feedback": (KeyedFeedback, "serialization"),
    "waiting_feedback": (WaitingFeedback, "serialization"),
    "unmatched_feedback": (UnmatchedFeedback, "serialization"),
    "joined_feedback": (JoinedFeedback, "serialization"),
}
"""Model by file name. The mode is "validation" for records that others write, "serialization" for those that we do."""


def json_schema(record: str) -> bytes:
    """Return the JSON Schema (2020-12) of a record, as its file has it.

    >>> orjson.loads(json_schema("dead_letter"))["title"]
    'DeadLetter'
    """
    model, mode = RECORDS[record]
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema(mode=mode)}
    return orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def numbers() -> bytes:
    """Return the numbers of the fields of Protobuf messages, as their file has them."""
    every = field_numbers()
    for model in OUTPUT_RECORDS.values():
        every = with_new_fields(every, avro_schema(model))
    return orjson.dumps(every, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


if __name__ == "__main__":
    for record in RECORDS:
        (FOLDER / f"{record}.json").write_bytes(json_schema(record))
    NUMBERS.write_bytes(numbers())
