"""Each line of docs/guides/endpoints.md, against a server that demands what that endpoint demands.

The settings are those of the guide; only the address and the words in capitals are the server's.
"""

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import ROOT
from decisions_endpoint import DecisionsScript, SystemOneScript, answer_of_sglang
from scripted_endpoint import (
    BOUNDED,
    BOUNDED_ANSWER,
    AskedCall,
    Endpoint,
    Reply,
    calls,
    completion,
    error,
    job,
    judged_score,
    one,
)
from services import until

from ragweir.metrics.judged.suites import suites
from ragweir.streams.services.judge import client, credentials
from ragweir.streams.services.judge.pool import LiveJudgePool
from ragweir.streams.services.judge.pricing import cost
from ragweir.streams.settings import JudgeSettings, Price

KEY, OLD_KEY = "sk-of-the-endpoint", "sk-of-yesterday"
PRICE = Price(input_usd=1, output_usd=10, cached_usd=0.25, reasoning_usd=5)
_ROW = re.compile(r"^\| ([^|]+) \| ((?:`[^`]+` ?)+)\|$", re.MULTILINE)
ROWS = {
    name.strip(): "\n".join(re.findall("`([^`]+)`", cell))
    for name, cell in _ROW.findall((ROOT / "docs" / "guides" / "endpoints.md").read_text())
}


class Denied(Exception):
    """The endpoint's error."""

    def __init__(self, reply: Reply) -> None:
        super().__init__()
        self.reply = reply


def require(condition: object, reply: Reply) -> None:
    if not condition:
        raise Denied(reply)


def bearer(asked: AskedCall, reply: Reply | None = None) -> None:
    require(asked.headers.get("authorization") == f"Bearer {KEY}", reply or error(401, "Incorrect API key provided"))


def schema_of(asked: AskedCall) -> dict[str, Any]:
    """The schema of a call that has one."""
    form = asked.body.get("response_format", {})
    found: dict[str, Any] = form.get("json_schema", {}).get("schema", {})
    return found


def keywords(schema: Any) -> set[str]:
    """Every keyword of a schema."""
    if isinstance(schema, list):
        return {word for each in schema for word in keywords(each)}
    return set(schema) | {w for each in schema.values() for w in keywords(each)} if isinstance(schema, dict) else set()


def knows_schema(asked: AskedCall) -> bool:
    """Whether the model has seen the schema."""
    return '"additionalProperties"' in asked.body["messages"][0]["content"]


def graded(asked: AskedCall, text: str = BOUNDED_ANSWER, **usage: Any) -> Reply:
    """A good answer."""
    return completion(asked, text, usage=used(**usage))


def used(**usage: Any) -> dict[str, Any]:
    return {"prompt_tokens": 100, "completion_tokens": 10} | usage


# The endpoints, by their rows of the guide.


def openai(asked: AskedCall) -> Reply:
    bearer(asked)
    require(asked.path == "/v1/chat/completions", error(404))
    require(
        "maxLength" not in keywords(schema_of(asked)),
        error(400, "Invalid schema for response_format 'x': In context=(), 'maxLength' is not permitted."),
    )
    return graded(asked)


def openai_reasoning(asked: AskedCall) -> Reply:
    """What it rejects is in the settings, so that no start tries it."""
    bearer(asked)
    assert "max_tokens" not in asked.body
    assert "temperature" not in asked.body
    assert (asked.body["reasoning_effort"], asked.body["service_tier"]) == ("low", "flex")
    assert asked.body["max_completion_tokens"] == 8000
    return graded(asked, completion_tokens=70, completion_tokens_details={"reasoning_tokens": 60})


def openai_organisation(asked: AskedCall) -> Reply:
    bearer(asked)
    given = asked.headers.get("openai-organization"), asked.headers.get("openai-project")
    require(given == ("org-ID", "proj_ID"), error(401, "No such organization"))
    return graded(asked)


def azure(asked: AskedCall) -> Reply:
    """By deployment and version; a header Authorization would be taken for Entra's."""
    path = "/openai/deployments/DEPLOYMENT/chat/completions?api-version=2024-10-21"
    require(asked.path == path, error(404, "Resource not found"))
    assert "authorization" not in asked.headers
    denied = error(401, "Access denied due to invalid subscription key or wrong API endpoint.")
    require(asked.headers.get("api-key") == KEY, denied)
    return graded(asked)


def entra(asked: AskedCall) -> Reply:
    require(asked.path.endswith("/chat/completions?api-version=2024-10-21"), error(404, "Resource not found"))
    bearer(asked, error(401, "The access token is expired."))
    return graded(asked)


def vertex(asked: AskedCall) -> Reply:
    path = "/v1/projects/PROJECT/locations/REGION/endpoints/openapi/chat/completions"
    require(asked.path == path, error(404))
    bearer(asked, error(401, "Request had invalid authentication credentials."))
    return graded(asked)


def bedrock(asked: AskedCall) -> Reply:
    require(asked.path == "/openai/v1/chat/completions", error(404))
    bearer(asked, error(403, "The security token included in the request is expired"))
    return graded(asked, f"<reasoning>They ask for a grade.</reasoning>{BOUNDED_ANSWER}")


def gemini(asked: AskedCall) -> Reply:
    """A wrong key is a 400 in a list; thoughts are in the total alone."""
    wrong = {"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}
    bearer(asked, Reply(400, [{"error": wrong}]))
    assert asked.body["reasoning_effort"] == "none"
    return graded(asked, total_tokens=170)


def anthropic(asked: AskedCall) -> Reply:
    """It ignores response_format without an error; the model makes a shape of its own."""
    bearer(asked)
    return graded(asked) if knows_schema(asked) else graded(asked, '{"rating": 5, "check": "CHECK"}')


def openrouter(asked: AskedCall) -> Reply:
    """Of a provider's error it says little, and has its words beside it."""
    bearer(asked)
    assert asked.headers["http-referer"] == "https://YOU"
    assert asked.headers["x-title"] == "ragweir"
    assert asked.body["provider"] == {"require_parameters": True}
    raw = (
        '{"message":"output_config.format.schema: For \'number\' type, properties maximum, minimum are not supported"}'
    )
    denied = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw}}}
    require(not keywords(schema_of(asked)) & {"minimum", "maximum"}, Reply(400, denied))
    return graded(asked)


def groq(asked: AskedCall) -> Reply:
    """An answer that is no JSON is an error of its own."""
    bearer(asked)
    require(knows_schema(asked), error(400, "Failed to generate JSON.", "json_validate_failed"))
    return graded(asked)


def deepseek(asked: AskedCall) -> Reply:
    bearer(asked)
    require(not schema_of(asked), error(400, "This response_format type is unavailable now"))
    return graded(asked, prompt_cache_hit_tokens=80, prompt_cache_miss_tokens=20)


def litellm(asked: AskedCall) -> Reply:
    denied = {"error": {"message": "No connected db.", "type": "no_db_connection", "param": None, "code": "400"}}
    bearer(asked, Reply(400, denied))
    assert asked.body["metadata"] == {"tags": ["ragweir"]}
    return graded(asked, prompt_tokens_details={"cached_tokens": 60})


def vllm(asked: AskedCall) -> Reply:
    assert "authorization" not in asked.headers
    assert asked.body["chat_template_kwargs"] == {"enable_thinking": False}
    denied = {"object": "error", "message": "The provided JSON schema contains features not supported by xgrammar."}
    require(not keywords(schema_of(asked)) & {"minItems", "maxLength"}, Reply(400, denied))
    return graded(asked)


def sglang(asked: AskedCall) -> Reply:
    """Without a parser of reasoning the thoughts come before the answer."""
    return graded(asked, f"<think>\nIs it {{good}}?\n</think>\n\n{BOUNDED_ANSWER}")


def tgi(asked: AskedCall) -> Reply:
    """Older ones have other types of response_format."""
    said = "Failed to deserialize the JSON body into the target type: response_format: unknown variant `{}`"
    kind = asked.body.get("response_format", {}).get("type")
    require(kind is None, Reply(422, said.format(kind)))
    return graded(asked)


def ollama(asked: AskedCall) -> Reply:
    require(asked.path == "/v1/chat/completions", Reply(404, "404 page not found"))
    assert "authorization" not in asked.headers
    return graded(asked)


def llama_cpp(asked: AskedCall) -> Reply:
    """Its grammar binds the answer; what it cached of the prompt is reported."""
    assert schema_of(asked)
    return graded(asked, prompt_tokens_details={"cached_tokens": 90})


ENDPOINTS: dict[str, Callable[[AskedCall], Reply]] = {
    "OpenAI": openai,
    "OpenAI, reasoning models": openai_reasoning,
    "OpenAI, organisation and project": openai_organisation,
    "Azure OpenAI with a key": azure,
    "Azure OpenAI with Entra": entra,
    "Vertex AI": vertex,
    "Bedrock": bedrock,
    "Gemini": gemini,
    "Anthropic": anthropic,
    "OpenRouter": openrouter,
    "Groq": groq,
    "DeepSeek": deepseek,
    "LiteLLM": litellm,
    "vLLM": vllm,
    "SGLang": sglang,
    "TGI": tgi,
    "Ollama": ollama,
    "llama.cpp": llama_cpp,
}
CALLS = {"OpenAI": 2, "Anthropic": 2, "OpenRouter": 2, "Groq": 2, "DeepSeek": 2, "vLLM": 2, "TGI": 3}
"""Calls of the first question, where it is not one; each later one takes one."""
COSTS = {
    "OpenAI, reasoning models": cost(PRICE, 100, 70, 0, 60),
    "Gemini": cost(PRICE, 100, 70, 0, 60),
    "DeepSeek": cost(PRICE, 100, 10, 80),
    "LiteLLM": cost(PRICE, 100, 10, 60),
    "llama.cpp": cost(PRICE, 100, 10, 90),
}
"""Costs of one call, where it does not have 100 tokens in and 10 out."""
DECISIONS: dict[str, tuple[str, Callable[[AskedCall], Reply], int]] = {
    "OpenAI, decisions": ("/v1/decisions", DecisionsScript(), cost(PRICE, 900, 0)),
    "SGLang, decisions": ("/v1/decisions", answer_of_sglang, cost(PRICE, 900, 0)),
    "vLLM, decisions": ("/v1/systemone", SystemOneScript(), cost(PRICE, 900, 1)),
}
"""Rows of decision models: the path of their questions, their answers and the cost of one question."""
CONNECTIONS = {"a gateway with certificates", "behind a proxy"}
"""Rows that another file tests."""


def test_each_row_of_the_guide_has_its_endpoint() -> None:
    assert set(ROWS) == set(ENDPOINTS) | CONNECTIONS | DECISIONS.keys()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of headers, as the guide has one, with the key of a file; no settings of the machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(client, "_UNUSABLE_PAUSE_S", 0.05)
    (tmp_path / "key").write_text(f"{KEY}\n")
    (tmp_path / "sign_in.py").write_text(
        "import pathlib, time\n"
        "def headers():\n"
        "    key = pathlib.Path('key').read_text().strip()\n"
        "    return {'Authorization': f'Bearer {key}'}, time.time() + 3600\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def settings_of(name: str, endpoint: Endpoint, **more: Any) -> JudgeSettings:
    given = tomllib.loads(ROWS[name].replace("KEY_FILE", "key").replace("MODULE", "sign_in"))
    path = re.sub(r"^https?://[^/]+", "", given["base_url"])
    host = endpoint.base_url.removesuffix("/v1")
    model = given.get("model", "gpt-4o-mini")
    plain = {"base_url": host + path, "prices": {model: PRICE}, "breaker_wait_s": 0.05}
    return JudgeSettings(**given | plain | more)


def served(endpoint: Endpoint, demands: Callable[[AskedCall], Reply]) -> list[BaseException]:
    """Serve an endpoint's answers; return what its calls lacked."""
    lacking: list[BaseException] = []

    def script(asked: AskedCall) -> Reply:
        try:
            return demands(asked)
        except Denied as denied:
            return denied.reply
        except Exception as wrong:  # An assertion fails on the server's thread.
            lacking.append(wrong)
            return error(418, "a demand is not met")

    endpoint.script = script
    return lacking


@pytest.mark.parametrize("name", ENDPOINTS)
def test_an_endpoint_judges_with_the_settings_of_its_row(name: str, endpoint: Endpoint) -> None:
    """Its demands are met, what it costs is exact to the millionth, and the second question takes one call."""
    lacking = served(endpoint, ENDPOINTS[name])
    live = LiveJudgePool(settings_of(name, endpoint), backoff_s=0.001)
    try:
        ended = [one(live, job(number, BOUNDED)) for number in range(2)]
    finally:
        live.close()
    assert not lacking, lacking
    assert [judged_score(end, "bounded") for end in ended] == [0.5, 0.5]
    assert [end.usage.calls for end in ended] == [CALLS.get(name, 1), 1]
    assert ended[1].usage.cost == COSTS.get(name, cost(PRICE, 100, 10))


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_model_judges_with_the_settings_of_its_row(name: str, endpoint: Endpoint) -> None:
    path, decide, cost_of_one = DECISIONS[name]

    def demands(asked: AskedCall) -> Reply:
        if "KEY_FILE" in ROWS[name]:
            bearer(asked)
        require(asked.path == path, error(404))
        return decide(asked)

    lacking = served(endpoint, demands)
    live = LiveJudgePool(settings_of(name, endpoint), backoff_s=0.001)
    try:
        ended = one(live, job(0, suites(decides=64)["rubric"]))
    finally:
        live.close()
    assert not lacking, lacking
    assert judged_score(ended, "judge_relevance") == 0.75 + 0.25 * 0.85
    assert (ended.usage.calls, ended.usage.cost) == (1, cost_of_one)


@pytest.mark.parametrize("name", [name for name in ENDPOINTS if "KEY_FILE" in ROWS[name] or "MODULE" in ROWS[name]])
def test_a_key_that_was_replaced_is_used_without_a_restart(
    name: str, endpoint: Endpoint, module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The endpoint rejects the old key, in its own words; the call goes out again with the new one of the file."""
    monkeypatch.setattr(credentials, "_RENEWAL_S", 0.0)
    (module / "key").write_text(OLD_KEY)
    lacking = served(endpoint, ENDPOINTS[name])
    live = LiveJudgePool(settings_of(name, endpoint, attempts=1), backoff_s=0.001)
    try:
        live.start(job(0, BOUNDED))
        until(lambda: live.unavailable_reason)
        assert "the judge rejects the key (4" in live.unavailable_reason
        assert KEY not in live.unavailable_reason
        (module / "key").write_text(KEY)
        ended = until_ended(live)
        counts = calls(live.drain_metrics().counts)
    finally:
        live.close()
    assert not lacking, lacking
    assert judged_score(ended, "bounded") == 0.5
    assert counts["refused"] >= 2


def until_ended(live: LiveJudgePool) -> Any:
    ended: list[Any] = []

    def has_ended() -> bool:
        ended.extend(live.take_results())
        return bool(ended)

    until(has_ended)
    return ended[0]
