"""The settings: what overrides what, what is rejected and how, and that no secret is ever told."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ragweir.errors import ConfigurationError
from ragweir.streams.settings import GUARDED, import_function, load

SECRET = "hunter2-Xq7"


@pytest.fixture(autouse=True)
def _a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings file and no variable of the machine reach a test."""
    monkeypatch.chdir(tmp_path)
    for variable in ("RAGWEIR_KAFKA__BOOTSTRAP_SERVERS", "RAGWEIR_TOPICS__PREFIX"):
        monkeypatch.delenv(variable, raising=False)


def file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(path: Path | None = None, overrides: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(path, overrides)
    message = str(caught.value)
    assert "\n" not in message
    assert SECRET not in message
    return message


def test_the_file_then_the_environment_then_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable overrides the file and a flag overrides both, each for its one setting only."""
    path = file(tmp_path, '[topics]\nprefix = "file."\npartitions = 3\n[limits]\nmax_contexts = 7')
    assert load(path).topics.prefix == "file."
    monkeypatch.setenv("RAGWEIR_TOPICS__PREFIX", "environment.")
    assert load(path).topics.prefix == "environment."
    flagged = load(path, {"topics": {"prefix": "flag."}, "kafka": {"bootstrap_servers": None}})
    assert flagged.topics.prefix == "flag."
    assert (flagged.topics.partitions, flagged.limits.max_contexts) == (3, 7)
    assert flagged.kafka.bootstrap_servers == "127.0.0.1:9092", "a flag that was not given sets nothing"


def test_the_file_of_the_folder_is_read_unless_another_is_named(tmp_path: Path) -> None:
    """`ragweir.toml` where one stands is the default; a file that is named replaces it."""
    (tmp_path / "ragweir.toml").write_text('[topics]\nprefix = "here."', encoding="utf-8")
    assert load().topics.prefix == "here."
    assert load(file(tmp_path, "")).topics.prefix == "rag."
    assert refusal(tmp_path / "nowhere.toml").startswith("there is no settings file")
    assert refusal(tmp_path).startswith("there is no settings file")


@pytest.mark.parametrize(
    ("variable", "value", "path", "read"),
    [
        ("RAGWEIR_TOPICS__PARTITIONS", "5", "topics.partitions", 5),
        ("RAGWEIR_LIMITS__MAX_EVENT_BYTES", "4096", "limits.max_event_bytes", 4096),
        ("RAGWEIR_INPUT__MAP", "maps/a.toml", "input.map", Path("maps/a.toml")),
        ("RAGWEIR_OUTPUT__INCLUDE_TEXT", "true", "output.include_text", True),
        ("RAGWEIR_METRICS__OFF", '["performance"]', "metrics.off", ("performance",)),
        ("RAGWEIR_TOPICS__PREFIX", "", "topics.prefix", ""),
        ("RAGWEIR_KAFKA__CLIENT", '{"sasl.password": "p"}', "kafka.client", {"sasl.password": "p"}),
        ("RAGWEIR_KAFKA__CLIENT__SASL_PASSWORD", "p", "kafka.client", {"sasl.password": "p"}),
        ("RAGWEIR_KAFKA__CLIENT__sasl.password", "p", "kafka.client", {"sasl.password": "p"}),
    ],
)
def test_a_variable_reaches_its_setting(
    variable: str, value: str, path: str, read: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two underscores lead into a group, whatever the setting's type."""
    monkeypatch.setenv(variable, value)
    found: Any = load()
    for name in path.split("."):
        found = getattr(found, name)
    assert found == read


def test_a_secret_from_the_environment_joins_the_files_properties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Librdkafka's properties may stand in the file and the password in the environment, which wins over the file's."""
    path = file(tmp_path, '[kafka.client]\n"sasl.username" = "u"\n"sasl.password" = "from the file"')
    monkeypatch.setenv("RAGWEIR_KAFKA__CLIENT__SASL_PASSWORD", SECRET)
    assert load(path).kafka.client == {"sasl.username": "u", "sasl.password": SECRET}


def test_a_header_of_the_environment_joins_those_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = file(tmp_path, "[judge.headers]\nX-Title = 'ragweir'\n[judge]\ntemperature = 'none'")
    monkeypatch.setenv("RAGWEIR_JUDGE__HEADERS__API_KEY", SECRET)
    found = load(path).judge
    assert (found.headers, found.temperature) == ({"x-title": "ragweir", "api-key": SECRET}, None)


REFUSED = (
    ("x = 1", "setting x: there is no such setting"),
    ("[kafak]\nx = 1", "setting kafak: there is no such setting"),
    ("[kafka]\nbootstrap = 'x'", "setting kafka.bootstrap: there is no such setting"),
    (f"kafka = '{SECRET}'", "setting kafka: must be a table"),
    (f"[kafka]\nclient = '{SECRET}'", "setting kafka.client: must be a table"),
    (f"[kafka.client]\n'sasl.password' = ['{SECRET}']", "setting kafka.client.sasl.password: Input should be a"),
    (f"[kafka]\nclient = '{SECRET}", "the settings file "),
    (f"[kafka.client]\n'sasl.password' = {SECRET}", "the settings file "),
    ("[topics]\npartitions = 0", "setting topics.partitions: Input should be greater than or equal to 1"),
    (f"[topics]\npartitions = '{SECRET}'", "setting topics.partitions: Input should be a valid integer"),
    ("[topics]\nprefix = 'a/b'", "setting topics.prefix: String should match pattern"),
    ("[input]\nstart_from = 'now'", "setting input.start_from: Input should be 'earliest' or 'latest'"),
    ("[telemetry]\nport = 70000", "setting telemetry.port: Input should be less than or equal to 65535"),
    ("[limits]\nmax_event_bytes = 10", "setting limits.max_event_bytes: "),
    ("[judge.headers]\nContent_Type = 'x'", "setting judge.headers: content-type is set by the judge"),
    (f"[judge.headers]\n'a b' = '{SECRET}'", "setting judge.headers: a name is of letters, digits and hyphens"),
    (f"[judge.headers]\na = '{SECRET}\u00e9'", "setting judge.headers: a value is of printable ASCII characters"),
    ("[judge.headers.a]\nfile = 'x'\nvariable = 'X'", "setting judge.headers.a"),
    ("[judge.extra_body]\nmax_tokens = 9", "setting judge.extra_body: max_tokens is set by judge.max_output_tokens"),
    ("[judge.extra_body]\nstream = true", "setting judge.extra_body: stream is set by the judge"),
    (
        "[judge.prices.m]\ninput_usd = 1\noutput_usd = 1\ncached_usd = 2",
        "setting judge.prices.m: cached_usd is above input_usd",
    ),
)


@pytest.mark.parametrize(("toml", "told"), REFUSED)
def test_what_is_wrong_is_rejected_by_name(toml: str, told: str, tmp_path: Path) -> None:
    """A wrong name, type or value is rejected in one sentence that names the setting and never its value."""
    assert refusal(file(tmp_path, toml)).startswith(told)


@pytest.mark.parametrize("path", ["/", "folder"])
def test_a_file_that_cannot_be_read_is_rejected(path: str, tmp_path: Path) -> None:
    """What is no file, or no UTF-8, is one sentence too."""
    (tmp_path / "folder").mkdir()
    assert refusal(Path(path)).startswith("there is no settings file")
    (tmp_path / "latin.toml").write_bytes(f"[kafka]\noauth = '{SECRET}\xff'".encode("latin-1"))
    assert refusal(tmp_path / "latin.toml").startswith("the settings file ")


@pytest.mark.parametrize(
    ("variable", "told"),
    [
        ("RAGWEIR_KAFKA__BOOTSTRAP", "setting kafka.bootstrap: there is no such setting"),
        ("RAGWEIR_KAFAK__BOOTSTRAP_SERVERS", "there is no group 'kafak' of settings"),
        ("RAGWEIR_TOPICS__PARTITIONS", "setting topics.partitions: Input should be a valid integer"),
        ("RAGWEIR_KAFKA", "the settings cannot be read: "),
        ("RAGWEIR_KAFKA__CLIENT", "the settings cannot be read: "),
    ],
)
def test_a_wrong_variable_is_rejected_by_name(variable: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistaken variable is an error that names it, not a default that stands silently."""
    monkeypatch.setenv(variable, f'{{"{SECRET}"')
    assert told in refusal()


def test_variables_of_others_are_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes gives every pod variables named after services; one called ragweir must not stop us."""
    monkeypatch.setenv("RAGWEIR_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("RAGWEIR_PORT", "tcp://10.0.0.1:9464")
    assert load().telemetry.port == 9464


def test_what_carries_the_guarantees_is_guarded() -> None:
    """The list of guarded properties holds at least those that exactly once, in order and per member rests on."""
    assert {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "partitioner",
        "transactional.id",
    } <= GUARDED


@pytest.mark.parametrize("name", sorted(GUARDED))
def test_the_guarantees_cannot_be_set(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A librdkafka property that the guarantees rest on is rejected by name, from a file as from the environment."""
    message = refusal(file(tmp_path, f"[kafka.client]\n'{name}' = '{SECRET}'"))
    assert message == f"setting kafka.client: {name} may not be set here: ragweir's guarantees rest on it"
    monkeypatch.setenv(f"RAGWEIR_KAFKA__CLIENT__{name.replace('.', '_').upper()}", SECRET)
    assert refusal() == message


def test_every_setting_has_a_default_and_is_frozen() -> None:
    """Without any settings there is a complete set, and nobody can change it."""
    settings = load()
    for _, group in settings:
        if isinstance(group, tuple):  # a list of tables, empty by default
            assert group == ()
            continue
        assert isinstance(group, BaseModel)
        assert group.model_config["frozen"]
        assert group.model_config["extra"] == "forbid"


@pytest.mark.parametrize(
    "place", ["", ":", "json", "json:", ":dumps", "json:nothing", "no.such.module:f", "json:decoder", ".:x"]
)
def test_a_function_that_is_none_is_rejected(place: str) -> None:
    """What `module:function` does not lead to is rejected by what was written."""
    with pytest.raises(ConfigurationError, match=r"imported|not a function") as caught:
        import_function(place)
    assert repr(place) in str(caught.value)


def test_a_module_that_raises_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sign-in module that fails on import, in whatever way, is a setting that is wrong and not our traceback."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "broken_sign_in.py").write_text("raise RuntimeError('no')", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="RuntimeError"):
        import_function("broken_sign_in:token")
