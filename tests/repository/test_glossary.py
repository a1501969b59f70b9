"""The glossary explains the words of public names, but for those with their ordinary meaning or that of Kafka."""

import re
from collections import defaultdict
from functools import cache
from itertools import takewhile

from commands import ROOT

from ragweir.schemas.topics import RUN, TOPICS
from ragweir.streams.commands.command_table import COMMANDS
from ragweir.streams.services.export.exposition import _HEADS as WINDOW_SERIES
from ragweir.streams.services.instruments import TABLE
from ragweir.streams.settings import OtlpOutputSettings, Price, Rule, SecretSource, Settings, SettingsGroup, Slo
from tools.reference.records import models

_ORDINARY = {
    "small words and numbers": (
        "above ahead because before began behind below by daily first from high higher is last least left like low "
        "min most new next none not number off on other otherwise per since unless until why"
    ),
    "units": "chars day dollars hour microdollars millionths minute seconds usd",
    "an application and its answers": (
        "answers asked bm25 chunk chunks comment comments confidence embedding environment expected extra "
        "history knn prompt query rank relevant response result retrieval retrieved returned "
        "role session token tokens tools usage wanted"
    ),
    "Kafka, HTTP and programs": (
        "api assigned auth base body bootstrap broker build ca cache cached call calls certificate class "
        "concurrency connections descriptors digest fetches file files folder handle header headers host id ids "
        "index info kafka logins modules oauth otlp panics parent partition partitions password path port proxies "
        "proxy public publish recreated replication retention servers settings sha256 signal socket source sources "
        "telemetry temperature timeout timestamp transactions trusted user users variable"
    ),
    "statistics and money": (
        "affordable better categories columns cost distance factor histogram interval mean prices quantile range ragas "
        "ratio scheme series spent statistic summed tolerance"
    ),
    "commands": "compare compared demo doctor explain explanations simulate tap",
    "other verbs and nouns": (
        "attempts cause default direction dropped emitted empty end ended entries expire field finish "
        "finished forgotten form ignored include items kind known made length limit limits live message "
        "method name people present read received replaced selected selection sequence shown size sizes start "
        "started store use"
    ),
}
"""By kind, the words that a reader knows from elsewhere."""
ORDINARY = {word for text in _ORDINARY.values() for word in text.split()}
_SHORTEST = 3
_ENDINGS = {"", *"s e es d ed ted ned ing ion ation or er ner y ies".split()}


def names() -> list[str]:
    """The public names: topics, series with their labels, commands, settings, and fields of records."""
    groups: list[type[SettingsGroup]] = [Slo, Rule, Price, SecretSource, OtlpOutputSettings]
    own = {name: type(group.default) for name, group in Settings.model_fields.items() if name != "slo"}
    return [
        *TOPICS,
        RUN.name,
        *COMMANDS,
        *WINDOW_SERIES,
        *(name for line in TABLE for name in (line.name, *line.labels)),
        *(f"{name}.{field}" for name, group in own.items() for field in group.model_fields),
        *(field for group in groups for field in group.model_fields),
        *(field for model in models() for field in model.model_fields),
    ]


def words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-z0-9]+", name.lower().removeprefix("ragweir_")) if word]


@cache
def terms() -> dict[str, list[str]]:
    """The terms of the glossary, with the public names that stand beside each."""
    rows = re.findall(r"\*\*(.+)\*\* \| .+ \| (.+) \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"))
    return {term: re.findall(r"`([\w.-]+)`", where.replace("`pyproject.toml`", "")) for term, where in rows}


def is_form(word: str, other: str) -> bool:
    """True if two words are forms of one, by their endings: evaluate and evaluation."""
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, other, strict=False)))
    return common >= _SHORTEST and {word[common:], other[common:]} <= _ENDINGS


def test_the_words_of_public_names_are_explained_or_ordinary() -> None:
    """A name with a new word needs a row of the glossary, or the word is one that every reader knows."""
    used = defaultdict(set)
    for name in names():
        for word in words(name):
            used[word].add(name)
    known = {word for term, beside in terms().items() for name in (term, *beside) for word in words(name)}
    unknown = {
        word: sorted(named)
        for word, named in used.items()
        if word not in known and not any(is_form(word, each) for each in known)
    }
    assert len(used) > 350
    assert {word: named for word, named in unknown.items() if word not in ORDINARY} == {}
    assert ORDINARY - unknown.keys() == set(), "words that no name uses, or that the glossary explains"


def test_the_names_in_the_glossary_exist() -> None:
    """Settings, topics, series and fields that stand beside a term are those of the code."""
    beside = {name for each in terms().values() for name in each}
    assert len(beside) > 40
    assert beside - {*names(), "--only"} == set()
