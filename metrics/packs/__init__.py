"""Question packs: metrics of one question, defined in a TOML file.

A pack has a question id, one of three forms (`FORMS`) and what to search for. Its metrics have names such as
`EF_1.rules_found`, and are not computed for events with another `question_id`. The three packs of the expected-answer
benchmark ship in this folder; they are loaded if the settings name them, as are folders of the user's packs.

>>> [metric.name for metric in SHIPPED["EF_1"]]
['EF_1.rules_found', 'EF_1.total_rules', 'EF_1.rules_coverage']
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import PurePath

from pydantic import ValidationError

from ragweir.errors import PackError
from ragweir.metrics.extension import Extension
from ragweir.metrics.metric import Metric
from ragweir.metrics.packs.facts import CalculationPack, FactsPack
from ragweir.metrics.packs.listing import ListPack
from ragweir.metrics.packs.pack import GROUP, Pack

__all__ = ["GROUP", "SHIPPED", "PackError", "load_packs", "parse_packs", "unloaded_pack"]

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


def parse_packs(files: Mapping[str, str], taken: Iterable[Metric] = ()) -> tuple[Extension, ...]:
    r"""Return the metrics of each pack.

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
    packs: list[Extension] = []
    faults: list[str] = []
    for name, text in files.items():
        try:
            metrics = tuple(_parse(text).metrics())
        except PackError as error:
            faults += [f"question pack {name}: {fault}" for fault in error.faults]
            continue
        for metric in metrics:
            if metric.name in owners:
                faults.append(
                    f"question pack {name}: question: {metric.name} is defined already, by {owners[metric.name]}"
                )
            owners[metric.name] = name
        packs.append(Extension(PurePath(name).name, sha256(text.encode()).hexdigest(), metrics))
    if faults:
        raise PackError(*faults)
    return tuple(packs)


def load_packs(folders: Iterable[Traversable]) -> tuple[Extension, ...]:
    """Return the packs in some folders, in the order of the folders and of the files' names.

    Raises:
        PackError: if a folder or a file cannot be read, a pack is invalid, or two define the same metric.
    """
    files: dict[str, str] = {}
    for folder in folders:
        try:
            packs = sorted((each for each in folder.iterdir() if each.name.endswith(".toml")), key=lambda f: f.name)
        except OSError as error:
            raise PackError(f"the folder {folder} of question packs cannot be read: {error.strerror}") from None
        for pack in packs:
            try:
                files[str(pack)] = pack.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                raise PackError(f"question pack {pack}: is not UTF-8 text") from None
            except OSError as error:
                raise PackError(f"question pack {pack}: cannot be read: {error.strerror}") from None
    return parse_packs(files, taken=(metric for metrics in SHIPPED.values() for metric in metrics))


def _shipped() -> dict[str, tuple[Metric, ...]]:
    files = (file for file in resources.files(__name__).iterdir() if file.name.endswith(".toml"))
    texts = {file.name: file.read_text(encoding="utf-8") for file in sorted(files, key=lambda file: file.name)}
    return {pack.name.removesuffix(".toml"): pack.metrics for pack in parse_packs(texts)}


SHIPPED: Mapping[str, tuple[Metric, ...]] = _shipped()
"""The metrics of the packs that ship with ragweir, by the names of the packs."""


def unloaded_pack(name: str) -> str:
    """Return the end of a sentence about an unknown metric that a shipped pack has; empty if none has it.

    >>> unloaded_pack("EF_1.rules_found")
    '; it is of the question pack EF_1, which is not loaded: set metrics.packs = ["EF_1"]'
    """
    pack = next((pack for pack, metrics in SHIPPED.items() if any(each.name == name for each in metrics)), None)
    if pack is None:
        return ""
    return f'; it is of the question pack {pack}, which is not loaded: set metrics.packs = ["{pack}"]'
