"""Question packs: metrics of one question, written as data.

A pack is a TOML file that names a question id, one of three forms (`FORMS`) and what to look for.
Its metrics are called `EF_1.rules_found` and so on, and cost nothing for events with another `question_id`. Three
packs, those of document 001, ship here; others are read from a folder.

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
"""The forms by the names that packs call them."""

_PLAIN = {
    "missing": "is missing",
    "extra_forbidden": "is not a field here",
    "too_short": "is empty",
    "string_type": "is not text",
    "tuple_type": "is not a list",
    "string_pattern_mismatch": "is not a name: letters, digits and underscores, at most 64",
}
"""Our words for pydantic's kinds of error."""


def _step(part: int | str) -> str:
    """One step of a field's path. A name in a pack may be any text, and must not break the line."""
    if isinstance(part, int):
        return f"[{part}]"
    return f".{part if part.isidentifier() else ascii(part)}"


def _faults(error: ValidationError) -> Iterator[str]:
    """A sentence for each fault of a pack."""
    errors = error.errors(include_url=False)
    places = [each["loc"] for each in errors]
    for each in errors:
        place = each["loc"]
        # Pydantic calls a list whose members are at fault too short as well.
        if each["type"] == "too_short" and any(other[: len(place)] == place != other for other in places):
            continue
        field = "".join(map(_step, place)).lstrip(".")
        sentence = _PLAIN.get(each["type"]) or each["msg"].removeprefix("Value error, ")
        yield f"{field}: {sentence}" if field else sentence


def _parse(text: str) -> Pack:
    """Read one pack.

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
    r"""The metrics of packs that have been read: file names and their text.

    Args:
        files: each file's name and text.
        taken: metrics that exist already; none may be defined again.

    Raises:
        PackError: if a file is no pack, or two define the same metric.

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
            defined = _parse(text).metrics()
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
    """The metrics of a folder's packs, file by file in the order of their names.

    Raises:
        PackError: if there is no such folder, a file cannot be read or is no pack, or two define the same metric.
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
