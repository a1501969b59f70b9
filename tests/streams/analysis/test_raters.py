"""Raters are stored as keyed hashes of their names."""

import hmac

import pytest

from ragweir.streams.services.shared.raters import fault_of_name, hashed_rater

KEY = "secret"


def test_a_hash_is_keyed_and_the_same_for_both_forms_of_a_name() -> None:
    assert hashed_rater("Ada", KEY) == hmac.new(b"secret", b"Ada", "sha256").hexdigest()[:16]
    assert hashed_rater("Ada", KEY) != hashed_rater("Ada", "other")
    assert hashed_rater("Ad\u0061\u0308", KEY) == hashed_rater("Ad\u00e4 ", KEY)
    assert len({hashed_rater(name, KEY) for name in ("Ada", "ada", "\udcff")}) == 3


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("Ada Lovelace", ""),
        ("x" * 200, ""),
        ("x" * 201, "has 201 characters"),
        ("\t", "is empty"),
        ("a\u202eb", "has control characters"),
        ("a\nb", "has control characters"),
    ],
)
def test_a_name_is_short_and_has_no_control_characters(name: str, fault: str) -> None:
    assert fault_of_name(name).startswith(fault)
    assert bool(fault_of_name(name)) == bool(fault)
