"""The distribution of `unsupported_risk` by which events are selected before an application has a routing row."""

SHIPPED_BINS = (
    *(1448, 618, 525, 323, 323, 276, 58, 265, 308, 66),
    *(160, 90, 90, 140, 105, 62, 62, 70, 90, 82),
    *(124, 27, 97, 12, 23, 35, 39, 39, 62, 51),
    *(51, 167, 51, 27, 39, 39, 39, 51, 39, 47),
    *(0, 78, 51, 90, 133, 62, 27, 85, 94, 51),
    *(0, 55, 47, 51, 78, 62, 66, 12, 66, 78),
    *(39, 39, 0, 51, 23, 55, 51, 66, 39, 66),
    *(90, 62, 39, 23, 35, 78, 12, 39, 12, 51),
    *(12, 78, 62, 74, 0, 62, 124, 35, 81, 101),
    *(35, 117, 35, 101, 191, 97, 206, 190, 128, 0),
)
"""The number of answers in each bin of `unsupported_risk`, of 10,000: the mean of two sets, the 183 answers of MTRAG
that have contexts and the 430 of BEGIN's development split. `python -m tools.shipped_bins` computes it."""
