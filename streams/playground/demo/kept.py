"""The folder that the demo leaves behind: its interactions, their evaluations, and a picture of the incident."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import orjson

from ragweir.errors import DemoError
from ragweir.schemas.codec.json import encode_json
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.playground.demo.picture import Moment, RiskPoint, incident
from ragweir.streams.playground.demo.sample_traffic import Encode, Sent
from ragweir.streams.playground.demo.samples import Event
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.settings import Settings
from ragweir.streams.settings.permissions import create

FOLDER = Path("ragweir-demo")
"""The folder, in the current one, unless another is named."""
_TITLE = "unsupported_risk of every answer, by pipeline version (sample traffic, its drop injected)"


class Kept:
    """Files of the demo's traffic. Each is written anew by each demo.

    Args:
        folder: an existing folder.
        sink: the open file of the interactions.
    """

    def __init__(self, folder: Path, sink: BinaryIO) -> None:
        self.interactions = folder / "interactions.jsonl"
        self.evaluations = folder / "evaluations.jsonl"
        self.picture = folder / "incident.svg"
        self._sink = sink

    def keeping(self, encode: Encode) -> Encode:
        """Return `encode`, extended by writing each interaction to the file."""

        def encode_and_keep(event: Event) -> Sequence[Sent]:
            self._sink.write(encode_json(event) + b"\n")
            return encode(event)

        return encode_and_keep

    def finish(self, settings: Settings, metric: str, moments: Sequence[Moment]) -> Mapping[Path, str]:
        """Write the evaluations of the topic, the newest of each event, and draw the incident if there was one.

        Args:
            settings: the demo's settings.
            metric: the metric to draw.
            moments: the moments of the incident; without any there is no picture.

        Returns:
            the files, and a description of each.
        """
        self._sink.flush()
        topic = f"{settings.topics.prefix}evaluations"
        newest = {record.key: record.value for record in read(settings, offset_range(settings, topic)) if record.value}
        with create(self.evaluations) as sink:
            sink.writelines(value + b"\n" for value in newest.values())
        files = {self.interactions: "the traffic, as it was published", self.evaluations: "its scores, the newest"}
        self.picture.unlink(missing_ok=True)
        if moments:
            first = min(each.at_s for each in moments)
            drawn = [each for each in _answers(newest.values(), metric) if each.at_s >= first]
            with create(self.picture) as sink:
                sink.write(incident(drawn, moments, _TITLE).encode())
            files[self.picture] = "the incident, for a browser"
        return files


def _answers(evaluations: Iterable[bytes], metric: str) -> Iterator[RiskPoint]:
    for each in evaluations:
        evaluation = Evaluation.model_validate(orjson.loads(each))
        risk = evaluation.scores.get(metric)
        if risk is not None:
            yield RiskPoint(evaluation.event_time.timestamp(), evaluation.pipeline_version or "", risk)


@contextmanager
def kept(folder: Path) -> Iterator[Kept]:
    """Make the folder, and keep the demo's traffic in it for the length of a `with` block.

    Raises:
        DemoError: if it cannot be written.
    """
    try:
        folder.mkdir(exist_ok=True)
        sink = create(folder / "interactions.jsonl")
    except OSError as error:
        raise DemoError(f"{folder} cannot be written: {error.strerror}; --folder names another one.") from None
    with sink:
        yield Kept(folder, sink)
