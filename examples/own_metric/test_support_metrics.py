"""The package's own test: the values that matter, and every law."""

from support_metrics import METRICS, jargon_share

from ragweir.metrics.laws.check import Check
from ragweir.metrics.metric import Null
from ragweir.metrics.view import example


def test_values() -> None:
    """Two of the three words are internal."""
    assert jargon_share(example(response="Escalation: tier two.")) == 2 / 3
    assert isinstance(jargon_share(example(response="")), Null)


def test_laws() -> None:
    """As `ragweir metrics check` checks them."""
    assert Check(METRICS).run().broken == []
