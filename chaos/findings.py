"""What a checker found: per output, how much was expected and found, and each kind of fault with a few examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Fault = Literal["lost", "duplicated", "reordered", "wrong", "overcounted"]
FAULTS: tuple[Fault, ...] = ("lost", "duplicated", "reordered", "wrong", "overcounted")
_EXAMPLES = 5


@dataclass(slots=True)
class Found:
    """One output's account."""

    expected: int = 0
    found: int = 0
    faults: dict[Fault, int] = field(default_factory=dict)
    examples: dict[Fault, list[str]] = field(default_factory=dict)

    def add(self, fault: Fault, example: str) -> None:
        """Note one fault."""
        self.faults[fault] = self.faults.get(fault, 0) + 1
        examples = self.examples.setdefault(fault, [])
        if len(examples) < _EXAMPLES:
            examples.append(example)


@dataclass(slots=True)
class Findings:
    """All accounts, by output."""

    outputs: dict[str, Found] = field(default_factory=dict)

    def of(self, output: str) -> Found:
        """One output's account."""
        return self.outputs.setdefault(output, Found())

    def faults(self) -> Mapping[str, int]:
        """Every fault that was found, as "output fault", and how often.

        >>> findings = Findings()
        >>> findings.of("evaluations").add("lost", "0/7")
        >>> findings.faults()
        {'evaluations lost': 1}
        """
        return {
            f"{name} {fault}": count for name, found in self.outputs.items() for fault, count in found.faults.items()
        }
