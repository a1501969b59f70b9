"""Maps of labels: a TOML file with, for each field of a label, the path to it in a row of another tool's export.

    event_id = "task.id"
    question = { constant = "supported" }
    value = "votes[].answer"                     # of each element of the list one label
    rater = "votes[].user"
    values = { "4" = "yes", "1" = "no" }

The rules are those of maps of events; the guide to maps lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragweir.errors import MapError, Rejected
from ragweir.schemas.codec.mapping.field_map import aligned, rules_in
from ragweir.schemas.codec.mapping.paths import ABSENT, Reader
from ragweir.schemas.codec.mapping.rules import ROW, compile_condition, compile_rule
from ragweir.schemas.codec.mapping.scope import CompiledRule, Scope
from ragweir.schemas.codec.mapping.transformations import TRANSFORMATIONS
from ragweir.schemas.codec.mapping.uses import Alternatives

TARGETS = ("event_id", "span_id", "trace_id")
"""The fields that name the event of a label, the most exact one first."""
_FIELDS = (*TARGETS, "question", "value", "rater", "time", "seconds", "comment")
_WHERE, _VALUES = "where", "values"
_TIMES = ("time",)


class LabelMap:
    r"""A compiled map, which returns the labels of a row of an export.

    >>> mapping = LabelMap.parse('event_id = "id"\nvalue = "said[].ok"\nrater = "said[].by"\nvalues = { "4" = "yes" }')
    >>> mapping({"id": 7, "said": [{"by": "a", "ok": 4}, {"ok": 1}]})
    [{'event_id': 7, 'value': 'yes', 'rater': 'a'}, {'event_id': 7, 'value': 1}]
    """

    def __init__(self, rules: Mapping[str, object]) -> None:
        compiled: dict[str, CompiledRule] = {}
        for field, rule in rules.items():
            if field in {_WHERE, _VALUES}:
                continue
            if field not in _FIELDS:
                raise MapError(f"{field}: a label has no such field; it has {', '.join(_FIELDS)}, {_WHERE}, {_VALUES}")
            compiled[field] = compile_rule(rule, Scope(field, columns=True, times=_TIMES))
        if "value" not in compiled or not compiled.keys() & set(TARGETS):
            raise MapError(f"the map must name value, and one of {', '.join(TARGETS)}")
        self._numbers_rows = any(rule.numbers_rows for rule in compiled.values())
        self._selects = None
        self.conditions: tuple[Alternatives, ...] = ()
        if _WHERE in rules:
            self._selects, self.conditions = compile_condition(rules[_WHERE], Scope(_WHERE))
        self.uses = tuple(use for rule in compiled.values() for use in rule.uses)
        self._translate: Reader | None = None
        if _VALUES in rules:
            self._translate = TRANSFORMATIONS["translate"]({"translate": rules[_VALUES]}, Scope(_VALUES))
        lists = {field: rule for field, rule in compiled.items() if rule.lists}
        _check_lists(lists)
        self._scalars = {field: rule.read for field, rule in compiled.items() if not rule.lists}
        self._columns = {field: aligned(field, lists) for field in lists}

    @classmethod
    def parse(cls, toml: str) -> LabelMap:
        """Compile a map from TOML.

        Raises:
            MapError: if it is not TOML, or a rule is wrong.
        """
        return cls(rules_in(toml))

    def selects(self, data: object) -> bool:
        """Return true if `where` selects the row."""
        return self._selects is None or self._selects(data)

    def __call__(self, data: object, row: int | None = None) -> list[dict[str, Any]] | None:
        """Return the fields of each label of a row; None for a row that `where` does not select.

        Args:
            data: the row, as parsed JSON.
            row: number of the row in its file, for the rule `row`.

        Raises:
            Rejected: if the row is not an object, a path through a list leads to something else, or a text cannot be
                parsed.
        """
        if not isinstance(data, dict):
            raise Rejected("unmapped", "the row is not an object")
        if self._numbers_rows and row is not None:
            data = {**data, ROW: str(row)}
        if not self.selects(data):
            return None
        shared = {field: value for field, read in self._scalars.items() if _is_there(value := read(data))}
        columns = {field: values for field, read in self._columns.items() if _is_there(values := read(data))}
        labels = [dict(shared) for _ in range(max(map(len, columns.values()), default=0 if self._columns else 1))]
        for field, values in columns.items():
            for label, value in zip(labels, values, strict=False):
                if _is_there(value):
                    label[field] = value
        for label in labels:
            if "value" in label:
                label["value"] = self._answer(label["value"])
        return labels

    def _answer(self, value: Any) -> Any:
        """Return the value of a label: that of a list of one, and a whole number without a fraction."""
        if isinstance(value, list) and len(value) == 1:
            (value,) = value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        return value if self._translate is None else self._translate(value)


def _is_there(value: object) -> bool:
    return value is not ABSENT and value is not None


def _check_lists(rules: Mapping[str, CompiledRule]) -> None:
    """Check that all fields of a list's elements are read from the same lists.

    Raises:
        MapError: if they are not.
    """
    if not rules:
        return
    its_field, deepest = max(rules.items(), key=lambda each: len(each[1].lists))
    for field, rule in rules.items():
        if rule.lists != deepest.lists[: len(rule.lists)]:
            raise MapError(
                f"{field}: goes through {', '.join(rule.lists)} and {its_field} through {', '.join(deepest.lists)}, so "
                "that it is not known which of their values belong together"
            )
