"""Fakes of endpoints with decision models: OpenAI's held against the types of its Python package, vLLM's and SGLang's.

Each answers a question that is no decision, such as that for a list of claims, as a chat model.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Annotated, Any, Required, Union, get_args, get_origin, get_type_hints

from openai.types import Decision
from openai.types.decision_create_params import DecisionCreateParams
from pydantic import TypeAdapter
from scripted_endpoint import AskedCall, Reply, completion, error
from typing_extensions import is_typeddict

_DECISION = TypeAdapter(Decision)
Weights = Callable[[Mapping[str, Any], list[str]], list[float]]
"""Returns the probabilities of a question's options, which it is given by their labels."""


def misfit(value: object, hint: Any, place: str = "body") -> str:
    """Where a value is not of a type of openai's parameters; empty if it is."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Required, Annotated):
        return misfit(value, parts[0], place)
    if origin in (Union, UnionType):
        found = [misfit(value, part, place) for part in parts]
        return "" if "" in found else max(found, key=len)
    if is_typeddict(hint):
        return _misfit_in_fields(value, hint, place)
    if origin is Iterable:
        listed = enumerate(value) if isinstance(value, list) else [(0, place)]
        return next((at for index, each in listed if (at := misfit(each, parts[0], f"{place}.{index}"))), "")
    return "" if value in parts or (origin is None and type(value) is hint) else place


def _misfit_in_fields(value: object, hint: Any, place: str) -> str:
    hints = get_type_hints(hint, include_extras=True)
    required = {name for name, each in hints.items() if get_origin(each) is Required}
    if not isinstance(value, dict):
        return place
    if wrong := sorted((value.keys() - hints.keys()) | (required - value.keys())):
        return f"{place}.{wrong[0]}"
    return next((at for name, each in value.items() if (at := misfit(each, hints[name], f"{place}.{name}"))), "")


def rejected(body: Mapping[str, Any]) -> str:
    """Return the part of a request that OpenAI does not take; empty if it is right."""
    if wrong := misfit(body, DecisionCreateParams):
        return wrong
    questions = body["questions"]
    if not 1 <= len(questions) <= 400:
        return "questions: 1 to 400"
    for each in questions:
        labels = options(each)
        most = {"predicate": 2, "choice": 255, "score": 10}[each["type"]]
        if not 2 <= len(labels) <= most or len(set(labels)) < len(labels):
            return f"questions: the options of {each.get('name')}"
    return ""


def options(question: Mapping[str, Any]) -> list[str]:
    match question["type"]:
        case "choice":
            return [each["value"] for each in question["choices"]]
        case "score":
            return [each["label"] for each in question["levels"]]
    return ["true", "false"]


def likeliest(label: str, probability: float = 0.8) -> Weights:
    """The option with a label has the probability, the others have equal parts of the rest."""

    def weights(_: Mapping[str, Any], labels: list[str]) -> list[float]:
        rest = (1 - probability) / (len(labels) - 1)
        return [probability if each == label else rest for each in labels]

    return weights


def highest(_: Mapping[str, Any], labels: list[str]) -> list[float]:
    """0.75 for the last option, 0.25 for the one before; a statement is true with 0.75."""
    if labels == ["true", "false"]:
        return [0.75, 0.25]
    return [*[0.0] * (len(labels) - 2), 0.25, 0.75]


def answer(question: Mapping[str, Any], weights: Weights) -> dict[str, Any]:
    """The answer to one question."""
    labels = options(question)
    probabilities = weights(question, labels)
    given: dict[str, Any] = {"type": question["type"], "name": question.get("name")}
    if question["type"] == "predicate":
        return {**given, "probability": probabilities[0]}
    pairs = list(zip(labels, probabilities, strict=True))
    if question["type"] == "choice":
        best = max(pairs, key=lambda pair: pair[1])[0]
        shown = [{"value": label, "probability": chance} for label, chance in pairs]
        return {**given, "choice": best, "confidence": max(probabilities), "probabilities": shown}
    levels = [{"label": label, "probability": chance, "value": n} for n, (label, chance) in enumerate(pairs)]
    expected = sum(n * chance for n, chance in enumerate(probabilities))
    return {**given, "score": expected, "confidence": max(probabilities), "probabilities": levels}


def usage(taken: int = 900, given: int = 0, cached: int = 0) -> dict[str, Any]:
    return {
        "input_tokens": taken,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": given,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": taken + given,
    }


def decided(body: Mapping[str, Any], weights: Weights = highest, **used: int) -> dict[str, Any]:
    """A response, which openai's client reads."""
    answers = [answer(each, weights) for each in body["questions"]]
    response = {"answers": answers, "model": "gpt-6-luna", "usage": usage(**used)}
    _DECISION.validate_python(response)
    return response


# System One, as vLLM's page on structured decisions has it.

_KINDS: dict[str, tuple[type, int]] = {"choice": (dict, 26), "score": (list, 10), "noul": (type(None), 0)}


def rejected_by_vllm(body: Mapping[str, Any]) -> str:
    """Return the part of a request that vLLM does not take; empty if it is right."""
    fields = {"model": str, "state": str, "questions": dict, "instructions": str, "chat_template_kwargs": dict}
    if wrong := sorted(name for name, each in body.items() if type(each) is not fields.get(name)):
        return wrong[0]
    if not 1 <= len(body["questions"]) <= 64:
        return "questions: 1 to 64"
    for name, question in body["questions"].items():
        kind, most = _KINDS.get(question.get("type"), (object, 0))
        if not name or question.keys() != {"type", "instructions", "criteria"} or not question["instructions"]:
            return name
        criteria = question["criteria"]
        if type(criteria) is not kind or (most and not 2 <= len(criteria) <= most):
            return f"{name}.criteria"
    return ""


def systemone(
    body: Mapping[str, Any], weights: Weights = highest, mass: float = 0.9, taken: int = 900
) -> dict[str, Any]:
    """A response of vLLM."""
    answers: dict[str, Any] = {}
    for name, question in body["questions"].items():
        criteria, kind = question["criteria"], question["type"]
        labels = ["true", "false"] if criteria is None else list(criteria)
        chances = weights({"name": name, "type": kind}, labels)
        answers[name] = {"type": kind, "confidence": max(chances) * mass}
        if kind == "noul":
            answers[name] |= {"noul": chances[0], "probabilities": {"yes": chances[0], "no": chances[1]}}
        elif kind == "choice":
            pairs = dict(zip(labels, chances, strict=True))
            answers[name] |= {"choice": max(pairs, key=pairs.__getitem__), "probabilities": pairs}
        else:
            numbered = {str(number): chance for number, chance in enumerate(chances)}
            expected = sum(number * chance for number, chance in enumerate(chances))
            legend = {str(number): label for number, label in enumerate(labels)}
            answers[name] |= {"score": expected, "legend": legend, "probabilities": numbered}
    return {
        "id": "decision-1",
        "object": "structured_decision",
        "model": "Qwen/Qwen3-8B",
        "answers": answers,
        "usage": {"input_tokens": taken, "output_tokens": len(answers)},
        "diagnostics": {name: {"label_mass": mass, "argmax_is_label": True} for name in answers},
    }


@dataclass
class SystemOneScript:
    """The script of a vLLM."""

    weights: Weights = highest
    mass: float = 0.9
    change: Callable[[dict[str, Any]], Any] = lambda response: response
    """Makes another response of the right one."""
    texts: dict[str, Any] = field(default_factory=dict)
    """Answers of the chat model, by the name of the schema."""

    def __call__(self, asked: AskedCall) -> Reply:
        if asked.path != "/v1/systemone":
            name = asked.body["response_format"]["json_schema"]["name"]
            return completion(asked, json.dumps(self.texts[name] | {"check": "CHECK"}))
        if wrong := rejected_by_vllm(asked.body):
            return error(400, f"Invalid value: {wrong}", param=wrong)
        return Reply(said=self.change(systemone(asked.body, self.weights, self.mass)))


# SGLang, as its models of requests and responses have it.

_SGLANG_FIELDS = {"choice": {"options"}, "score": {"levels"}, "yes_no": set[str]()}


def rejected_by_sglang(body: Mapping[str, Any]) -> str:
    """Return the part of a request that SGLang does not take; empty if it is right."""
    if body.keys() != {"model", "input", "questions"} or not str(body["input"]).strip() or not body["questions"]:
        return "a field"
    for question in body["questions"]:
        own = _SGLANG_FIELDS.get(question["type"])
        if own is None or question.keys() != {"id", "type", "question"} | own or not question["question"].strip():
            return "a field of a question"
        options = question.get("options", question.get("levels", ["yes", "no"]))
        names = [each["name"] if isinstance(each, dict) else each for each in options]
        if not 2 <= len(names) <= (26 if "options" in own else 10) or len({*names}) < len(names):
            return "options"
    return ""


def sglang(body: Mapping[str, Any], weights: Weights = highest, mass: float = 0.9) -> dict[str, Any]:
    """A response of SGLang."""
    answers: dict[str, Any] = {}
    for question in body["questions"]:
        kind = question["type"]
        labels = [each["name"] for each in question.get("options", ())] or question.get("levels", ["true", "false"])
        chances = weights(question, labels)
        names = {"yes_no": ["yes", "no"], "choice": labels}.get(kind, [str(number) for number in range(len(labels))])
        answers[question["id"]] = {
            "type": kind,
            "probabilities": dict(zip(names, chances, strict=True)),
            "label_mass": mass,
        }
    used = {"prompt_tokens": 900, "total_tokens": 900, "completion_tokens": 0}
    return {"model": body["model"], "prompt_format_version": 1, "answers": answers, "usage": used}


def answer_of_sglang(asked: AskedCall) -> Reply:
    """The reply of an SGLang to decisions."""
    wrong = rejected_by_sglang(asked.body)
    return error(400, f"Invalid value: {wrong}", param=wrong) if wrong else Reply(said=sglang(asked.body))


@dataclass
class DecisionsScript:
    """The script of an endpoint that has decisions and chat completions."""

    weights: Weights = highest
    used: dict[str, int] = field(default_factory=dict)
    change: Callable[[dict[str, Any]], Any] = lambda response: response
    """Makes another response of the right one."""
    texts: dict[str, Any] = field(default_factory=dict)
    """Answers of the chat model, by the name of the schema."""

    def __call__(self, asked: AskedCall) -> Reply:
        if asked.path != "/v1/decisions":
            name = asked.body["response_format"]["json_schema"]["name"]
            return completion(asked, json.dumps(self.texts[name] | {"check": "CHECK"}))
        if wrong := rejected(asked.body):
            return error(400, f"Invalid value: {wrong}", param=wrong)
        return Reply(said=self.change(decided(asked.body, self.weights, **self.used)))
