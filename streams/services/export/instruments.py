"""The instruments of the exporter."""

from __future__ import annotations

from operator import attrgetter
from typing import get_args

from ragweir.schemas.window import Fate
from ragweir.streams.runtime.serving.instruments import counter, gauge

_SIZES = attrgetter("windows")

INSTRUMENTS = (
    counter("ragweir_window_records_total", "Records of windows read, by outcome", outcome=get_args(Fate)),
    counter("ragweir_windows_shown_total", "Closed windows that replaced an earlier one", window=_SIZES),
    counter("ragweir_windows_revised_total", "Closed windows shown again with late events", window=_SIZES),
    counter("ragweir_label_sets_folded_total", "Label sets shown as __overflow__", window=_SIZES),
    gauge(
        "ragweir_open_window_bytes",
        "Memory of the records of windows that are open, or shown and may be revised, in bytes",
    ),
    gauge(
        "ragweir_shift_applications_ignored",
        "Applications whose metrics are not tested for shifts, since there are more than shift.max_applications",
    ),
)
