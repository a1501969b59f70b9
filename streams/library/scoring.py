"""Scores of events that are Python mappings."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, overload

from ragweir.errors import Rejected
from ragweir.metrics.catalogue import Catalogue
from ragweir.schemas.codec.decoder import JsonDecoder
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.library.arguments import MapArgument, SettingsArgument, map_of, settings_of
from ragweir.streams.library.python_values import as_json
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent
from ragweir.streams.services.evaluate.from_settings import evaluate_config

TOPIC = "python"
"""The topic of events that are mappings."""
_HINTS = {"columns": "score_frame() takes a data frame", "model_dump": "model_dump() makes one of a model"}
"""Advice by an attribute of what is iterable and no iterable of events."""


class Scorer:
    """Scores events as `ragweir score` does: each is written as JSON and read by the same agent.

    Args:
        map: see `score`.
        settings: see `score`.
        explain: True to add the evidence of the scores.
    """

    def __init__(self, map: MapArgument, settings: SettingsArgument, *, explain: bool = False) -> None:
        effective = settings_of(settings)
        config = evaluate_config(effective, TOPIC, explain=explain, is_file=True)
        if map is not None:
            limits = effective.limits
            decoder = JsonDecoder(limits.max_event_bytes, limits.max_items, map_of(map))
            config = replace(config, decoders={TOPIC: decoder})
        self.config = config
        """How events are read."""

    @property
    def catalogue(self) -> Catalogue:
        """The enabled metrics."""
        return self.config.catalogue

    def scores(self, events: Iterable[object]) -> Iterator[Evaluation | Rejected]:
        """Yield the result of each event, in order."""
        agent = EvaluateAgent(replace(self.config, default_time=machine.now()))
        return (_result(agent, event, number) for number, event in enumerate(events, 1))


def _result(agent: EvaluateAgent, event: object, number: int) -> Evaluation | Rejected:
    try:
        if not isinstance(event, Mapping):
            return Rejected("invalid", f"the event is a {type(event).__name__}, not a mapping")
        result = next(agent.evaluate(Record(TOPIC, 0, number, None, as_json(event), None)), None)
    except Rejected as rejected:
        return rejected
    except MemoryError:
        raise
    except Exception as error:  # One event must not stop the others, as in the agent.
        return Rejected("unreadable", f"evaluating raised {type(error).__name__}")
    if result is None:
        return Rejected("unmapped", "`where` of the map does not select the event")
    if isinstance(result, Rejected):  # What a service names by a setting, a program names by an argument.
        return Rejected(result.error_class, result.message.replace("the map of input.map", "a map (map=)"))
    return result[0].model_copy(update={"source": None})


@cache
def _default(*, explain: bool) -> Scorer:
    """Return the scorer of the default settings: making one takes longer than scoring an event."""
    return Scorer(None, None, explain=explain)


def scorer(map: MapArgument, settings: SettingsArgument, *, explain: bool = False) -> Scorer:
    """Return the scorer of these arguments.

    Raises:
        ConfigurationError: if the map or a setting is wrong.
    """
    return _default(explain=explain) if map is None and settings is None else Scorer(map, settings, explain=explain)


def score_one(event: Mapping[str, Any], with_scorer: Scorer) -> Evaluation:
    """Return the evaluation of one event.

    Raises:
        Rejected: if the event cannot be scored.
    """
    result = next(with_scorer.scores([event]))
    if isinstance(result, Rejected):
        raise result
    return result


@overload
def score(
    event: Mapping[str, Any], *, map: MapArgument = ..., settings: SettingsArgument = ..., explain: bool = ...
) -> Evaluation: ...
@overload
def score(
    event: Iterable[Mapping[str, Any]], *, map: MapArgument = ..., settings: SettingsArgument = ..., explain: bool = ...
) -> Iterator[Evaluation | Rejected]: ...
def score(
    event: Mapping[str, Any] | Iterable[Mapping[str, Any]],
    *,
    map: MapArgument = None,
    settings: SettingsArgument = None,
    explain: bool = False,
) -> Evaluation | Iterator[Evaluation | Rejected]:
    """Score one event, or many, as `ragweir score` does: without a broker, without a judge.

    >>> import ragweir
    >>> event = {"event_id": "1", "query": "Who wrote the first program?", "response": "Ada Lovelace.",
    ...          "contexts": [{"text": "Ada Lovelace wrote the first program."}]}
    >>> ragweir.score(event).scores["context_support"]
    1.0

    Many events give an iterator, in their order, that scores each when it is asked for it:

    >>> [type(result).__name__ for result in ragweir.score([event, {"event_id": "2"}])]
    ['Evaluation', 'Rejected']

    Args:
        event: an event, with the fields of an interaction or those that the map reads; or an iterable of events. An
            event without a time has the present time, and its evaluation the flag `time_defaulted`.
        map: the map of events of a foreign schema: a mapping of rules, the path of a TOML file, or the name of a ready
            map such as `"langfuse"`. An event that its `where` does not select is `Rejected` as `unmapped`.
        settings: a mapping of groups of settings such as `{"limits": {"max_contexts": 8}}`, a `Settings`, or the path
            of a settings file, which is read with the environment as commands do. None: the defaults; neither
            `ragweir.toml` nor the environment is read.
        explain: True to add the evidence of the scores to `evidence`.

    Returns:
        The evaluation of one event; of many an iterator with as many results, in which `Rejected` stands for an event
        that cannot be scored.

    Raises:
        Rejected: if the one event cannot be scored.
        ConfigurationError: if the map or a setting is wrong.
        TypeError: if it is neither a mapping nor an iterable of mappings, such as JSON text or a data frame.
    """
    if isinstance(event, str | bytes | bytearray | memoryview | io.IOBase):
        raise TypeError(f"an event is a mapping, not a {type(event).__name__}; json.loads() makes one of JSON")
    for attribute, hint in _HINTS.items():
        if hasattr(event, attribute):
            raise TypeError(f"an event is a mapping, not a {type(event).__name__}; {hint}")
    found = scorer(map, settings, explain=explain)
    if isinstance(event, Mapping):
        return score_one(event, found)
    return found.scores(event)
