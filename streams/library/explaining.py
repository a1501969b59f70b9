"""The catalogue of metrics, and the explanation of one event's scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from types import MappingProxyType
from typing import Any

from typing_extensions import override

from ragweir.metrics.metric import Metric
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.analysis.html import row, table, text
from ragweir.streams.library.arguments import MapArgument, SettingsArgument, settings_of
from ragweir.streams.library.scoring import score_one, scorer
from ragweir.streams.runtime.text.terminal import Terminal, printable
from ragweir.streams.services.shared import from_settings

_WIDTH = 100


def catalogue(settings: SettingsArgument = None) -> Mapping[str, Metric]:
    """Return the enabled metrics by name, also those that a judge computes.

    >>> import ragweir
    >>> metric = ragweir.catalogue()["context_support"]
    >>> metric.group, metric.unit, metric.range, metric.better, metric.needs
    ('grounding', 'ratio', '0 to 1', 'higher', ('contexts',))

    Args:
        settings: see `score`.

    Raises:
        ConfigurationError: if a setting is wrong.
    """
    return MappingProxyType(from_settings.catalogue(settings_of(settings)).metrics)


@dataclass(frozen=True, slots=True)
class ExplainedMetric:
    """One metric's result for one event."""

    metric: Metric
    value: float | str | None
    """A number (a boolean as 1 or 0), a label, or None."""
    reason: str | None
    """The reason of a value that is None."""
    evidence: tuple[str, ...]
    """Short texts of the event that the value follows from, if the metric shows any."""


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Mapping[str, ExplainedMetric]):
    """The results of one event by metric: a mapping. Printed, and in a notebook, it is readable text."""

    evaluation: Evaluation
    """The evaluation, with its evidence."""
    _metrics: Mapping[str, ExplainedMetric]

    @override
    def __getitem__(self, name: str) -> ExplainedMetric:
        return self._metrics[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    @override
    def __len__(self) -> int:
        return len(self._metrics)

    @override
    def __repr__(self) -> str:
        from ragweir.streams.commands.screens.scores import ScoreScreen  # noqa: PLC0415 - it imports much that scores need not

        page = StringIO()
        terminal = Terminal(file=page, width=_WIDTH, color_system=None)
        terminal.say(self._title)
        ScoreScreen(terminal, {name: each.metric for name, each in self.items()}).show(self.evaluation)
        return "\n".join(line.rstrip() for line in page.getvalue().rstrip().splitlines())

    def _repr_html_(self) -> str:
        from ragweir.streams.commands.screens.scores import DIRECTIONS, formatted  # noqa: PLC0415 - as above

        rows, missing = [], defaultdict[str, list[str]](list)
        for name, each in self.items():
            if each.value is None:
                missing[each.reason or ""].append(name)
                continue
            facts = f"{each.metric.unit}, {DIRECTIONS[each.metric.better]}"
            lines = "".join(f"<br>- {text(line, 1_000)}" for line in each.evidence)
            meaning = f"{text(each.metric.meaning, 1_000)}{lines}"
            rows.append(row((text(name), text(formatted(each.value, each.metric)), text(facts), meaning)))
        absent = [f"<li>{text(reason)}: {', '.join(map(text, names))}</li>" for reason, names in missing.items()]
        found = table(("metric", "value", "unit", "meaning and evidence"), rows)
        return f"<p>{text(self._title, 1_000)}</p>\n{found}<p>Not computed</p><ul>{''.join(absent)}</ul>\n"

    @property
    def _title(self) -> str:
        flags = f", flags {', '.join(self.evaluation.flags)}" if self.evaluation.flags else ""
        return printable(f"Event {self.evaluation.event_id}{flags}", None)


def explain(event: Mapping[str, Any], *, map: MapArgument = None, settings: SettingsArgument = None) -> Explanation:
    """Score one event, and show for each metric the value and its evidence, or the reason for no value.

    >>> import ragweir
    >>> event = {"event_id": "1", "query": "Who wrote the first program?", "response": "Ada Lovelace, in 1843.",
    ...          "contexts": [{"text": "Ada Lovelace wrote the first program."}]}
    >>> explanation = ragweir.explain(event)
    >>> explanation["context_support"].value, explanation["context_support"].evidence
    (0.666667, ('1843',))
    >>> explanation["token_f1"].reason
    'the event has no expected'

    Args:
        event: see `score`.
        map: see `score`.
        settings: see `score`.

    Returns:
        A mapping of the computed metrics, in the order of the catalogue. Its text is for people.

    Raises:
        Rejected: if the event cannot be scored.
        ConfigurationError: if the map or a setting is wrong.
        TypeError: if it is not a mapping.
    """
    if not isinstance(event, Mapping):
        raise TypeError(f"an event is a mapping, not a {type(event).__name__}")
    found = scorer(map, settings, explain=True)
    evaluation = score_one(event, found)
    values: dict[str, float | str | None] = {**evaluation.scores, **evaluation.categories}
    metrics = {
        name: ExplainedMetric(metric, values[name], evaluation.reasons.get(name), evaluation.evidence.get(name, ()))
        for name, metric in found.catalogue.free.items()
        if name in values
    }
    return Explanation(evaluation, MappingProxyType(metrics))
