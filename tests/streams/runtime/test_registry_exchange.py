"""The client against the recorded answers of a real registry, Apicurio; `make test-registry` compares the recording."""

import json

import pytest
from registry_exchange import FILE, replayed

RECORDED = json.loads(FILE.read_text())


@pytest.mark.slow
def test_the_client_reads_a_real_registrys_answers() -> None:
    said = replayed(RECORDED["exchange"])
    assert said == RECORDED["said"]


def test_what_the_client_made_of_them_is_right() -> None:
    """As a person would say it, so that a recording of a defect is none of this."""
    said = dict(RECORDED["said"])
    assert said.pop("a registry without subjects") == 0
    assert said.pop("subjects") == 3
    assert said.pop("no such id") == "SchemaNotFound"
    assert said.pop("another schema of a subject") == "SchemaNotFound"
    assert said.pop("an incompatible schema") == "RegistryUnusable"
    assert said.pop("no schema") == "RegistryUnusable"
    wanted = {
        "subject before": False,
        "not registered": "SchemaNotFound",
        "subject after": True,
        "registered again": True,
        "found": True,
        "read": True,
    }
    for what, value in said.items():
        step = what.partition(": ")[2]
        assert value == wanted[step] if step in wanted else isinstance(value, int), what
