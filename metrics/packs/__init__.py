"""Question packs: metrics of one question, defined in a TOML file.

A pack has a question id, one of three forms (`FORMS`) and what to search for. Its metrics have names such as
`EF_1.rules_found`, and are not computed for events with another `question_id`. The three packs of document 001 are in
this folder; others are read from a folder of the user's.

>>> [metric.name for metric in METRICS if metric.question == "EF_1"]
['EF_1.rules_found', 'EF_1.total_rules', 'EF_1.rules_coverage']
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from ragweir.errors import PackError
from ragweir.metrics.metric import Metric
from ragweir.metrics.packs.facts import CalculationPack, FactsPack
from ragweir.metrics.packs.listing import ListPack
from ragweir.metrics.packs.pack import Pack

__all__ = ["METRICS", "PackError", "load_packs", "parse_packs"]

FORMS: Mapping[str, type[Pack]] = {"list": ListPack, "facts": FactsPack, "calculation": CalculationPack}
"""Forms by their names in packs."""

_MESSAGES = {
    "missing": "is missing",
    "extra_forbidden": "is not a field here",
    "too_short": "is empty",
    "string_type": "is not text",
    "tuple_type": "is not a list",
    "string_pattern_mismatch": "is not a name: letters, digits and underscores, at most 64",
}
"""Messages that replace pydantic's, by type of error."""


def _step(part: int | str) -> str:
    """Return one step of a field's path. A name in a pack may be any text, also with line breaks."""
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part if part.isidentifier() else ascii(part)}"


def _faults(error: ValidationError) -> Iterator[str]:
    """Yield a message for each fault of a pack."""
    errors = error.errors(include_url=False)
    places = [each["loc"] for each in errors]
    for each in errors:
        place = each["loc"]
        # For pydantic, a list with faulty elements is too short as well.
        if each["type"] == "too_short" and any(other[: len(place)] == place != other for other in places):
            continue
        field = "".join(map(_step, place)).lstrip(".")
        sentence = _MESSAGES.get(each["type"]) or each["msg"].removeprefix("Value error, ")
        yield f"{field}: {sentence}" if field else sentence


def _parse(text: str) -> Pack:
    """Parse one pack.

    Raises:
        PackError: with the faults, without the file's name.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PackError(f"is not TOML: {error}") from None
    except RecursionError:
        raise PackError("is nested too deeply") from None
    form = FORMS.get(str(data.get("form")))
    if form is None:
        raise PackError(f"form: is {'unknown' if 'form' in data else 'missing'}; it is one of {', '.join(FORMS)}")
    try:
        return form.model_validate(data)
    except ValidationError as error:
        raise PackError(*_faults(error)) from None


def parse_packs(files: Mapping[str, str], taken: Iterable[Metric] = ()) -> tuple[Metric, ...]:
    r"""Return the metrics of packs.

    Args:
        files: text of each pack by file name.
        taken: existing metrics, which must not be defined again.

    Raises:
        PackError: if a pack is invalid, or two define the same metric.

    >>> parse_packs({"mine.toml": 'question = "Q7"\nform = "quiz"'})
    Traceback (most recent call last):
    ...
    ragweir.errors.PackError: question pack mine.toml: form: is unknown; it is one of list, facts, calculation
    """
    owners = {metric.name: "a pack that ships with ragweir" for metric in taken}
    metrics: list[Metric] = []
    faults: list[str] = []
    for name, text in files.items():
        try:
            defined = tuple(_parse(text).metrics())
        except PackError as error:
            faults += [f"question pack {name}: {fault}" for fault in error.faults]
            continue
        for metric in defined:
            if metric.name in owners:
                faults.append(
                    f"question pack {name}: question: {metric.name} is defined already, by {owners[metric.name]}"
                )
            owners[metric.name] = name
        metrics += defined
    if faults:
        raise PackError(*faults)
    return tuple(metrics)


def load_packs(folder: Path) -> tuple[Metric, ...]:
    """Return the metrics of a folder's packs, in the order of the files' names.

    Raises:
        PackError: if the folder or a file cannot be read, a pack is invalid, or two define the same metric.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except OSError as error:
        raise PackError(f"the folder {folder} of question packs cannot be read: {error.strerror}") from None
    files: dict[str, str] = {}
    for path in paths:
        try:
            files[str(path)] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise PackError(f"question pack {path}: is not UTF-8 text") from None
        except OSError as error:
            raise PackError(f"question pack {path}: cannot be read: {error.strerror}") from None
    return parse_packs(files, taken=METRICS)


def _shipped() -> dict[str, str]:
    files = (file for file in resources.files(__name__).iterdir() if file.name.endswith(".toml"))
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(files, key=lambda file: file.name)}


METRICS = parse_packs(_shipped())
