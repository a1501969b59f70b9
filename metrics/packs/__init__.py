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

from metrics.metric import Metric
from metrics.packs.facts import CalculationPack, FactsPack
from metrics.packs.listing import ListPack
from metrics.packs.pack import Pack

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


class PackError(ValueError):
    """Packs that cannot be used: one sentence per fault, each naming file and field, a line each."""


def _faults(error: ValidationError) -> Iterator[str]:
    """A sentence for each fault of a pack."""
    errors = error.errors(include_url=False)
    places = [each["loc"] for each in errors]
    for each in errors:
        place = each["loc"]
        # Pydantic calls a list whose members are at fault too short as well.
        if each["type"] == "too_short" and any(other[: len(place)] == place != other for other in places):
            continue
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
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
    form = FORMS.get(str(data.get("form")))
    if form is None:
        raise PackError(f"form: is {'unknown' if 'form' in data else 'missing'}; it is one of {', '.join(FORMS)}")
    try:
        return form.model_validate(data)
    except ValidationError as error:
        raise PackError("\n".join(_faults(error))) from None


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
    metrics.packs.PackError: mine.toml: form: is unknown; it is one of list, facts, calculation
    """
    owners = {metric.name: "a pack that ships with ragweir" for metric in taken}
    metrics: list[Metric] = []
    faults: list[str] = []
    for name, text in files.items():
        try:
            defined = _parse(text).metrics()
        except PackError as error:
            faults += [f"{name}: {fault}" for fault in str(error).splitlines()]
            continue
        for metric in defined:
            if metric.name in owners:
                faults.append(f"{name}: question: {metric.name} is defined already, by {owners[metric.name]}")
            owners[metric.name] = name
        metrics += defined
    if faults:
        raise PackError("\n".join(faults))
    return tuple(metrics)


def load_packs(folder: Path) -> tuple[Metric, ...]:
    """The metrics of a folder's packs, file by file in the order of their names.

    Raises:
        PackError: if there is no such folder, a file cannot be read or is no pack, or two define the same metric.
    """
    if not folder.is_dir():
        raise PackError(f"{folder}: there is no such folder")
    files: dict[str, str] = {}
    for path in sorted(folder.glob("*.toml")):
        try:
            files[path.name] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise PackError(f"{path.name}: is not UTF-8 text") from None
        except OSError as error:
            raise PackError(f"{path.name}: cannot be read: {error.strerror}") from None
    return parse_packs(files, taken=METRICS)


def _shipped() -> dict[str, str]:
    files = (file for file in resources.files(__name__).iterdir() if file.name.endswith(".toml"))
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(files, key=lambda file: file.name)}


METRICS = parse_packs(_shipped())
