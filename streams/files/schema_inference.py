"""Infers the schema of foreign events, and proposes the map that reads them.

A proposal is inferred from names and types, and has to be checked by a person: each of ragweir's fields gets the path
with the most usual name for it, among those that have the right type in most of the sampled events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice, product

from ragweir.schemas.codec.mapping.paths import Steps as Path
from ragweir.schemas.codec.mapping.paths import path_text
from ragweir.schemas.codec.mapping.sample_paths import Columns, columns
from ragweir.schemas.codec.ready_maps import SIGNATURES
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.times import FIRST_YEAR, LAST_YEAR, parse_time
from ragweir.streams.files.cells import parse_cells

Rules = dict[str, object]
Fits = Callable[[object], bool]
Row = tuple[str, Fits, str]

REQUIRED = ("event_id", "query", "response")

_SHARE = 0.5
"""The least share of the events that must have a path."""
_MOST = 0.9
"""The least share of its values that must have the right type. Ids may repeat to this degree, by redelivery."""
_ALTERNATIVE = 0.05
"""The least share of the events that a further path must have for a field whose first path some events lack."""
_MOST_ALTERNATIVES = 5
_VAGUE = frozenset({"id", "name", "value", "version"})
"""Names that are read together with the one above them: `session.id` is a session_id."""
_NUMBER, _WHOLE = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?"), re.compile(r"[0-9]+")
"""Numbers as the text of a table's cell."""
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


def _plain(name: str) -> str:
    """Return a name in lower case, with its words joined by underscores."""
    return "_".join(filter(None, _WORD.split(name))).lower()


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_id(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and 0 < len(str(value)) <= 200


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: object) -> bool:
    if isinstance(value, str):
        return _WHOLE.fullmatch(value) is not None
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_time(value: object) -> bool:
    try:
        return FIRST_YEAR <= parse_time(value).year <= LAST_YEAR
    except ValueError:
        return False


def _is_text_or_texts(value: object) -> bool:
    return _is_text(value) or (isinstance(value, list) and bool(value) and all(map(_is_text, value)))


FIELDS: tuple[Row, ...] = (
    ("event_id", _is_id, "event_id id uuid request_id interaction_id message_id run_id span_id trace_id"),
    (
        "query",
        _is_text,
        "query question user_query user_input user_message prompt input input_value message messages_content",
    ),
    ("response", _is_text, "response answer output output_value completion actual_output reply message_content"),
    ("expected", _is_text_or_texts, "expected reference ground_truth expected_output targets target"),
    ("started_at", _is_time, "started_at start_time start request_time created_at"),
    ("ended_at", _is_time, "ended_at end_time end finished_at response_time timestamp time ts"),
    ("application", _is_id, "application app service service_name bot"),
    ("tenant", _is_id, "tenant tenant_id customer customer_id organization"),
    ("environment", _is_id, "environment env stage"),
    ("pipeline_version", _is_id, "pipeline_version version release build"),
    ("model", _is_id, "model model_name llm llm_model"),
    ("session_id", _is_id, "session_id session conversation_id thread_id chat_id"),
    ("trace_id", _is_id, "trace_id trace"),
    ("span_id", _is_id, "span_id"),
    ("question_id", _is_id, "question_id"),
    ("finish_reason", _is_text, "finish_reason stop_reason"),
    ("usage.input_tokens", _is_whole, "input_tokens prompt_tokens token_count_prompt"),
    ("usage.output_tokens", _is_whole, "output_tokens completion_tokens token_count_completion"),
    ("usage.cost_usd", _is_number, "cost_usd total_cost cost"),
    ("feedback.score", _is_number, "feedback_score rating user_rating"),
)
"""Ragweir's fields, the checks of their values, and their usual names, the most usual first."""

_LIST_NAMES = (
    "contexts retrieved_contexts retrieval_context context documents docs chunks passages sources search_results hits "
    "snippets references citations"
)
_LIST = ("contexts", _is_list, _LIST_NAMES)
LIST_FIELDS: tuple[Row, ...] = (
    ("text", _is_text, "text content page_content passage body chunk snippet ."),
    ("chunk_id", _is_id, "chunk_id passage_id id"),
    ("document_id", _is_id, "document_id doc_id source_id source url"),
    ("score", _is_number, "score similarity sim relevance_score"),
    ("page", _is_whole, "page page_number"),
    ("retrieval_method", _is_text, "retrieval_method retriever method"),
)
"""The same for the items of the list of contexts; the name `.` is the item itself."""


_USUAL_NAMES = frozenset(
    [
        *(name for _, _, names in (*FIELDS, _LIST, *LIST_FIELDS) for name in names.split()),
        *(_plain(name) for sets in SIGNATURES.values() for names in sets for name in names),
        *Interaction.model_fields,
    ]
)


def is_usual(name: str) -> bool:
    """Return true if ragweir, a product whose exports have a ready map, or many applications have a field of this name.

    >>> is_usual("User Query"), is_usual("sessionId"), is_usual("Ada wrote it.")
    (True, True, False)
    """
    return _plain(name) in _USUAL_NAMES


def _names_of(path: Path) -> tuple[str, ...]:
    """Return the names of a path: its last, and its last two together.

    >>> _names_of(("outputs", "actualAnswer")), _names_of(("attributes", "session.id"))
    (('actual_answer', 'outputs_actual_answer'), ('session_id',))
    """
    dotted = ".".join(step for step in path if isinstance(step, str))
    words = [_plain(name) for name in dotted.split(".")[-2:]]
    if len(words) == 1:
        return (words[0] or ".",)
    return ("_".join(words),) if words[-1] in _VAGUE else (words[-1], "_".join(words))


def _candidates(found: Columns, row: Row, least: float) -> list[Path]:
    """Return the paths of a field: by how usual the name is, then nearest to the top, then in most events."""
    _, fits, usual = row
    names = usual.split()
    candidates = [
        ((names.index(name), len(path), -len(values)), path)
        for path, values in found.items()
        if not any(isinstance(step, str) and step.isdecimal() for step in path)  # An id as a key is data.
        for name in _names_of(path)
        if name in names and len(values) >= least and sum(map(fits, values.values())) >= _MOST * len(values)
    ]
    candidates.sort(key=lambda candidate: candidate[0])
    return list(dict.fromkeys(path for _, path in candidates))


def _best(found: Columns, row: Row, least: float) -> Path | None:
    return next(iter(_candidates(found, row, least)), None)


def _alternatives(found: Columns, row: Row, events: int) -> list[Path]:
    """Return the paths of a required field that together lead to a value in most events, the best first.

    >>> row = ("query", _is_text, "question input")
    >>> _alternatives({("question",): {0: "Who?"}, ("input",): {1: "When?"}, ("a", "input"): {0: "Who?"}}, row, 2)
    [('question',), ('input',)]
    """
    best = _best(found, row, _SHARE * events)
    chosen = [] if best is None else [best]
    covered = set(found[best]) if best is not None else set()
    for path in _candidates(found, row, _ALTERNATIVE * events):
        if len(covered) >= events or len(chosen) == _MOST_ALTERNATIVES:
            break
        if len(found[path].keys() - covered) >= _ALTERNATIVE * events:
            chosen.append(path)
            covered |= found[path].keys()
    return chosen if len(covered) >= _SHARE * events else []


def _identity(found: Columns, events: int, usual: Path | None) -> tuple[Path, ...]:
    """Return the path of an id that is unique, or those of an id and a short value that are so together."""

    def differ(*paths: Path) -> bool:
        together = set.intersection(*(set(found[path]) for path in paths))
        values = {tuple(found[path][place] for path in paths) for place in together}
        return len(together) >= _SHARE * events and len(values) >= _MOST * len(together)

    usable = [path for path, values in found.items() if all(map(_is_id, values.values()))]
    ids = [path for path in usable if _names_of(path)[-1].rpartition("_")[2] in ("id", "uuid")]
    ids.sort(key=lambda path: (path != usual, len(path)))
    if single := next(filter(differ, ids), None):
        return (single,)
    # Texts are no ids, since each evaluation repeats the id.
    short = [
        path for path in usable if not any(len(word) > 99 or " " in word for word in map(str, found[path].values()))
    ]
    short.sort(key=lambda path: _is_time(next(iter(found[path].values()))))
    pairs = (pair for pair in product((path for path in ids if path in short), short) if pair[0] != pair[1])
    return next((pair for pair in islice(pairs, 100) if differ(*pair)), (usual,) if usual else ())


def _contexts(found: Columns, plain: Columns) -> dict[str, Path]:
    """Return the rules for the list of contexts, if there is one with texts."""
    path = _best(plain, _LIST, 1)
    if path is None:
        return {}
    above = (*path, None)
    items = {inner[len(above) :]: values for inner, values in found.items() if inner[: len(above)] == above}
    inner = {f"contexts[].{row[0]}": best for row in LIST_FIELDS if (best := _best(items, row, 1)) is not None}
    return {field: (*above, *rest) for field, rest in inner.items()} if "contexts[].text" in inner else {}


def propose(events: Sequence[object]) -> Rules:
    """Return the rules of a map for these events, without the fields for which no path was found.

    >>> propose([{"id": 1, "question": "Who?", "answer": "Ada.", "docs": [{"content": "Ada."}], "ts": 1764000000000}])
    ... # doctest: +NORMALIZE_WHITESPACE
    {'event_id': 'id', 'query': 'question', 'response': 'answer', 'ended_at': 'ts',
     'contexts[].text': 'docs[].content'}

    Events without an id get a hash of their contents:

    >>> propose([{"question": "Who?", "answer": "Ada.", "docs": "['Ada wrote it.']"}])
    ... # doctest: +NORMALIZE_WHITESPACE
    {'event_id': {'hash': ['question', 'answer']}, 'query': 'question', 'response': 'answer',
     'contexts[].text': {'path': 'docs', 'parse': 'python', 'then': '[]'}}
    """
    events, kinds = parse_cells(events)
    found = columns(events)
    plain = {path: values for path, values in found.items() if None not in path}
    count = sum(isinstance(event, dict) for event in events)
    chosen = {row[0]: [path] for row in FIELDS if (path := _best(plain, row, _SHARE * count)) is not None} | {
        row[0]: paths for row in FIELDS if row[0] in _FROM_SEVERAL and (paths := _alternatives(plain, row, count))
    }
    chosen |= {field: [path] for field, path in _contexts(found, plain).items()}
    usual = chosen.pop("event_id", [None])[0]
    rules = {field: _rule(paths, kinds) for field, paths in chosen.items()}
    identity = [path_text(path) for path in _identity(plain, count, usual)]
    if identity:
        return {"event_id": identity if len(identity) > 1 else identity[0]} | rules
    if {"query", "response"} <= rules.keys():
        times = [rules[time] for time in ("started_at", "ended_at") if time in rules]
        return {"event_id": {"hash": [rules["query"], rules["response"], *times]}} | rules
    return rules


_FROM_SEVERAL = frozenset({"query", "response"})
"""Fields that are read from several paths, if no single one is in all events."""


def _rule(paths: Sequence[Path], kinds: Mapping[str, str]) -> object:
    """Return the rule for a path, or for several of which the first that is present counts."""
    rules = [_single_rule(path, kinds) for path in paths]
    return rules[0] if len(rules) == 1 else {"first": rules}


def _single_rule(path: Path, kinds: Mapping[str, str]) -> object:
    name, *rest = path
    if isinstance(name, str) and name in kinds and rest:
        return {"path": path_text((name,)), "parse": kinds[name], "then": path_text(tuple(rest))}
    return path_text(path)


def innermost(events: Sequence[object], most: int = 40) -> list[str]:
    """Return the paths of values that a tenth of the events have, those near the top first, as TOML."""
    found = columns(events)
    above = {path[:-1] for path in found}
    leaves = [path for path in found if path not in above and len(found[path]) >= len(events) / 10]
    leaves.sort(key=lambda path: (len(path), -len(found[path])))
    return [_toml(path_text(path)) for path in leaves[:most]]


def _toml(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{name} = {_toml(each)}' for name, each in value.items())} }}"
    text = str(value)
    if text.isprintable() and "'" not in text and ('"' in text or "\\" in text):
        return f"'{text}'"
    # Names may contain control characters, which must not reach the terminal.
    plain = (each if each.isprintable() and each not in '"\\' else f"\\U{ord(each):08X}" for each in text)
    return f'"{"".join(plain)}"'


def written(rules: Mapping[str, object]) -> str:
    """Return the rules as the TOML of a map, with a comment for each required rule that is missing.

    >>> print(written({"event_id": ["a", "b"], "response": "reply", "contexts[].text": "docs[]"}))
    # query = ""  # required; none was found as query, question, user_query, ...
    event_id = ["a", "b"]
    response = "reply"
    "contexts[].text" = "docs[]"
    """
    usual = {field: ", ".join(names.split()[:3]) for field, _, names in FIELDS}
    missing = [field for field in REQUIRED if field not in rules]
    lines = [f'# {field} = ""  # required; none was found as {usual[field]}, ...' for field in missing]
    keys = {field: field if field.isidentifier() else f'"{field}"' for field in rules}
    return "\n".join([*lines, *(f"{keys[field]} = {_toml(rule)}" for field, rule in rules.items())])
