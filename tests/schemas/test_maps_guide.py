"""The guide to maps: each of its examples gives what it says."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ragweir.schemas.codec.json import decode, encode_json, interaction
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.codec.mapping.rules import _SOURCES

GUIDE = (Path(__file__).parents[2] / "docs/guides/maps.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(json|toml)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
EVENT: dict[str, Any] = json.loads(BLOCKS[0][1])
EXAMPLES = [(rules, json.loads(shown)) for (_, rules), (_, shown) in zip(BLOCKS[1::2], BLOCKS[2::2], strict=True)]
REQUIRED = {"event_id": '"run"', "query": '"in.question"', "response": '"kind"'}


@pytest.mark.parametrize(("rules", "shown"), EXAMPLES)
def test_an_example_gives_what_the_guide_shows(rules: str, shown: dict[str, Any]) -> None:
    added = {name: path for name, path in REQUIRED.items() if not re.search(rf"^{name} =", rules, re.MULTILINE)}
    found = FieldMap.parse("".join(f"{name} = {path}\n" for name, path in added.items()) + rules)(EVENT)
    assert found is not None
    assert decode(encode_json(found)) == interaction(found)
    if "session_id" in shown:
        shown |= {"session_id": found["session_id"]}
        assert re.fullmatch("[0-9a-f]{32}", found["session_id"])
    assert {name: value for name, value in found.items() if name not in added} == shown


def test_the_guide_names_every_key_of_a_rule() -> None:
    keys = {"path", "in", "absent", *_SOURCES, *(key for keys in _SOURCES.values() for key in keys)}
    assert {key for key in keys if not re.search(rf"\b{key}\b", GUIDE)} == set()
    assert len(EXAMPLES) == 9
