"""Findings of a checker: per output, how much was expected and found, and each kind of defect with a few examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

Defect = Literal["lost", "duplicated", "reordered", "wrong", "overcounted"]
DEFECTS: tuple[Defect, ...] = get_args(Defect)
_EXAMPLES = 5


@dataclass(slots=True)
class Found:
    """Findings in one output."""

    expected: int = 0
    found: int = 0
    defects: dict[Defect, int] = field(default_factory=dict)
    examples: dict[Defect, list[str]] = field(default_factory=dict)

    def add(self, defect: Defect, example: str) -> None:
        """Add one defect."""
        self.defects[defect] = self.defects.get(defect, 0) + 1
        examples = self.examples.setdefault(defect, [])
        if len(examples) < _EXAMPLES:
            examples.append(example)


@dataclass(slots=True)
class Findings:
    """Findings by output."""

    outputs: dict[str, Found] = field(default_factory=dict)

    def of(self, output: str) -> Found:
        """Return the findings in one output."""
        return self.outputs.setdefault(output, Found())

    def defects(self) -> Mapping[str, int]:
        """Return how often each defect was found, by "output defect".

        >>> findings = Findings()
        >>> findings.of("evaluations").add("lost", "0/7")
        >>> findings.defects()
        {'evaluations lost': 1}
        """
        return {
            f"{name} {defect}": count for name, found in self.outputs.items() for defect, count in found.defects.items()
        }
