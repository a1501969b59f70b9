"""Counts: the whole numbers that the metrics of texts divide.

A metric of texts is a formula over counts of one event, such as `supported_stems / response_stems`. `Counts` defines
each of them and is the reference; a faster way to count gives the same numbers under the same `NAMES`.

>>> from ragweir.metrics.view import example
>>> counts = example(contexts=[{"text": "The tower opened in 1889."}], response="The tower closed in 1889.").counts
>>> counts.supported_stems, counts.response_stems
(2, 3)
"""

from ragweir.metrics.counts.counts import NAMES, Counts

__all__ = ["NAMES", "Counts"]
