"""The lag of evaluation in words, for pages; it is what the check `group` of `ragweir doctor` says of it."""

from __future__ import annotations

from confluent_kafka import KafkaException

from ragweir.errors import RagweirError
from ragweir.streams.analysis.checks import kafka
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed, CheckSkipped, CheckWarning
from ragweir.streams.settings import Settings


def evaluation_lag(settings: Settings) -> str:
    """Return how many records the group of evaluate is behind, or the reason why this is not known."""
    context = CheckContext(settings)
    try:
        kafka.broker(context)
        return kafka.group_lag(context)
    except (CheckFailed, CheckWarning) as found:
        return str(found)
    except (CheckSkipped, RagweirError) as error:
        return f"the lag is not known: {error}"
    except KafkaException as error:
        return f"the lag is not known: {error.args[0].str()}"
