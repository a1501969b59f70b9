"""The metrics: a table for each group, and the definition of each metric."""

from __future__ import annotations

import re
from itertools import groupby
from operator import attrgetter

from ragweir.metrics import packs
from ragweir.metrics.catalogue import everything
from ragweir.metrics.metric import Metric
from tools.reference.markdown import blocks, code, plain, table
from tools.reference.records import field_link

HEAD = ("metric", "meaning", "needs", "unit", "range", "better", "source")
COSTS = {
    "free": "Computed for every event.",
    "local": "Computed by a local model, for the events that [routing](../guides/judging.md) selects for this suite.",
    "llm": "Computed by the judge, for the events that [routing](../guides/judging.md) selects for this suite.",
}
PACKS = (
    "Metrics of the question packs that ship with ragweir. They are computed only if"
    " [`metrics.packs`](settings.md#metrics.packs) names their pack, the part of a name before the dot, and only for"
    " events with its `question_id`."
)
SOURCES = {
    "LLM rubric": "an-llm-rubric",
    "expected-answer benchmark": "an-expected-answer-benchmark",
    "retrieval, extraction and aggregation": "a-retrieval-extraction-and-aggregation-framework",
    "GraphRAG metrics guide": "a-graphrag-metrics-guide",
    "lexical evaluators": "three-lexical-evaluators",
    "OpenTelemetry": "opentelemetry-genai",
    "Robertson": "information-retrieval",
    "trec_eval": "information-retrieval",
    "Voorhees": "information-retrieval",
    "Järvelin": "information-retrieval",
    "SQuAD": "question-answering-and-summaries",
    "ROUGE": "question-answering-and-summaries",
    "common practice": "common-practice-and-ragweirs-own",
    "ragweir's own": "common-practice-and-ragweirs-own",
}
"""The heading among the page's sources that a metric's source links to, by a pattern of the source."""
_FACTS = ("Formula", "Range", "Undefined", "Known limits", "Deviation", "Deviations", "Reference")
"""The named facts of a docstring, in the order of the page."""
_FACT = re.compile(rf"^({'|'.join(_FACTS)}): ", re.MULTILINE)


def page() -> str:
    """Return the generated part of the page."""
    groups = [(name, list(members)) for name, members in groupby(everything(packs.SHIPPED), attrgetter("group"))]
    return blocks(*(_group(name, members) for name, members in groups))


def source_link(source: str) -> str:
    """Return a metric's source as a link to its entry.

    >>> source_link("trec_eval"), source_link("nowhere")
    ('[trec_eval](#information-retrieval)', 'nowhere')
    """
    found = next((to for pattern, to in SOURCES.items() if re.search(pattern, source)), None)
    return f"[{plain(source)}](#{found})" if found else plain(source)


def slug(name: str) -> str:
    """Return the anchor of a metric's heading.

    >>> slug("EF_2.has_yes")
    'ef_2has_yes'
    """
    return name.lower().replace(".", "")


def _group(name: str, members: list[Metric]) -> str:
    costs = dict.fromkeys(COSTS[each.cost] for each in members)
    return blocks(
        f"## {name}",
        *([PACKS] if name == packs.GROUP else costs),
        table(HEAD, map(_row, members)),
        *(_definition(metric) for metric in members),
    )


def _row(metric: Metric) -> tuple[str, ...]:
    return (
        f"[{code(metric.name)}](#{slug(metric.name)})",
        plain(metric.meaning),
        ", ".join(map(field_link, metric.needs)),
        metric.unit,
        plain(metric.range),
        metric.better,
        source_link(metric.source),
    )


def _definition(metric: Metric) -> str:
    """Return the docstring as a list of facts and an example."""
    text, prompt, example = metric.text.partition("\n>>> ")
    meaning, *facts = _FACT.split(text.strip())
    named = sorted(zip(facts[::2], facts[1::2], strict=True), key=lambda fact: _FACTS.index(fact[0]))
    listed = "\n".join(f"- {name}: {plain(fact)}" for name, fact in named)
    also = f"Also called {', '.join(map(code, metric.aliases))}." if metric.aliases else ""
    shown = f"```pycon\n{(prompt + example).strip()}\n```" if prompt else ""
    return blocks(f"#### `{metric.name}`", *map(plain, meaning.strip().split("\n\n")), also, listed, shown)
