"""The records: their fields, with types, limits and meanings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from ragweir.metrics.judged.descriptions import field_docstrings
from ragweir.schemas.export import RECORDS
from tools.reference.markdown import anchor, blocks, code, plain, table

HEAD = ("field", "type", "meaning")
_LIMITS: Mapping[str, str] = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "maxLength": "at most {} characters",
    "maxItems": "at most {} elements",
}


def page() -> str:
    """Return the generated part of the page."""
    return blocks(*(_section(model, record) for model, record in models().items()))


def models() -> dict[type[BaseModel], str]:
    """Return the models of all records and of their parts, each once, with the record's name; parts have none."""
    found: dict[type[BaseModel], str] = {}
    for record, (model, _) in RECORDS.items():
        found[model] = record
        for part in _parts(model):
            found.setdefault(part, "")
    return found


def link(model: type[BaseModel]) -> str:
    """Return a link to a record from another page."""
    return f"[{RECORD_TITLES[model]}](records.md#{_slug(RECORD_TITLES[model])})"


def field_link(field: str) -> str:
    """Return a link to a field of the interaction from another page."""
    return f"[{code(field)}](records.md#Interaction.{field})"


RECORD_TITLES = {model: f"The {name.replace('_', ' ')} record" for name, (model, _) in RECORDS.items()}


def _slug(title: str) -> str:
    return title.lower().replace(" ", "-")


def _section(model: type[BaseModel], record: str) -> str:
    schema = f"JSON Schema: [`schemas/json/{record}.json`](../../schemas/json/{record}.json)." if record else ""
    title = f"## {RECORD_TITLES[model]}" if record else f"### `{model.__name__}`"
    texts = map(plain, (inspect.getdoc(model) or "").split("\n\n"))
    meanings = field_docstrings(model)
    rows = (
        (anchor(f"{model.__name__}.{name}", code(name)), _type(name, model), plain(meanings.get(name, "")))
        for name in model.model_fields
    )
    return blocks(title, *texts, schema, table(HEAD, rows))


def _type(name: str, model: type[BaseModel]) -> str:
    """Return a field's type in JSON, with its limits and a word where it is required."""
    schema = model.model_json_schema(mode="validation")
    shown = _shown(schema["properties"][name])
    return f"{shown}, required" if name in schema.get("required", ()) else shown


def _shown(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        titles = {model.__name__: title for model, title in RECORD_TITLES.items()}
        return f"[{name}](#{_slug(titles.get(name, name))})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_shown(each) for each in schema["anyOf"] if each.get("type") != "null"))
    if "enum" in schema:
        return f"one of {', '.join(code(each) for each in schema['enum'])}"
    if "const" in schema:
        return code(schema["const"])
    if schema.get("format") == "date-time":
        return "time"
    kind = str(schema.get("type", "any"))
    if kind == "array":
        kind = f"list of {_shown(schema.get('items', {}))}"
    elif kind == "object":
        values = schema.get("additionalProperties")
        kind = f"object of {_shown(values)}" if isinstance(values, Mapping) else "object"
    limits = [text.format(schema[limit]) for limit, text in _LIMITS.items() if limit in schema]
    return kind.replace("string", "text") + (f" ({', '.join(limits)})" if limits else "")


def _parts(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Yield the models within a model's fields, however deep."""
    for field in model.model_fields.values():
        for part in _models(field.annotation):
            yield part
            yield from _parts(part)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models(argument)
