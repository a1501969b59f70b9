"""The rights of the parts in deploy/kafka/acls.sh, from the topic table and the table of parts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ragweir.schemas.access import PARTS, Part
from ragweir.schemas.topics import topic_table

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "kafka" / "acls.sh"
_BETWEEN = re.compile("(?<=# <parts>\n).*?(?=# </parts>)", re.DOTALL)
_TOPICS = topic_table("$FORMAT").values()
_OTHER_NAMES = {
    ("Read", "interactions"): "$input",
    ("Write", "otlp.evaluations"): "${OTLP_TOPIC:-${prefix}otlp.evaluations}",
}
"""The topics whose names do not follow from the prefix, by operation."""

Rights = defaultdict[tuple[str, ...], list[str]]
"""The arguments of `allow`, by the needs of the settings."""


def rewritten(text: str) -> str:
    """Return the text of the script with its generated part as it is now."""
    return _BETWEEN.sub(lambda _: "".join(f"{line}\n" for part in PARTS.values() for line in _lines(part)), text)


def _lines(part: Part) -> Iterator[str]:
    yield ""
    yield f"# {part.name}"
    for needs, rights in sorted(_rights(part).items()):
        if needs:
            yield f"if needs {' '.join(needs)}; then"
        for right in rights:
            yield "    " * bool(needs) + f"allow {right}"
        if needs:
            yield "fi"


def _rights(part: Part) -> Rights:
    user, name = f"ragweir-{part.name}", f"${{prefix}}{part.name}"
    rights: Rights = defaultdict(list)
    for operation in ("Read", "Write"):
        named: Rights = defaultdict(list)
        for topic in _TOPICS:
            if part.name in (topic.readers if operation == "Read" else topic.writers):
                full_name = _OTHER_NAMES.get((operation, topic.name), f"${{prefix}}{topic.name}")
                named[_needs(part, topic.need)].append(f'--topic "{full_name}"')
        for needs, topics in named.items():
            rights[needs].append(f"{user} {operation} {' '.join(topics)}")
    own = rights[_needs(part)]
    if part.group:
        progress = f' --group "{name}.progress"' * part.progress
        own += [f'{user} Read --group "{name}"{progress}', f'ragweir-operator Describe --group "{name}"']
    if part.alone:
        own.append(f'{user} Describe --group "$reader"')
    if part.transactions:
        own.append(f'{user} Write --transactional-id "{name}-" --resource-pattern-type prefixed')
    return rights


def _needs(part: Part, need: str = "") -> tuple[str, ...]:
    return tuple(sorted({part.need, need} - {""}))
