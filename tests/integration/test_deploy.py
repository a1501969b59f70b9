"""deploy/ against the code that it runs: what cannot be run on a machine without Docker is checked as data."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from commands import ROOT, program
from pydantic import BaseModel

from ragweir.errors import ConfigurationError
from ragweir.metrics.aggregation.estimate import Estimate, EstimatedMetric, estimate_name
from ragweir.metrics.aggregation.merger import ClosedWindow
from ragweir.metrics.aggregation.summary import DEFAULT_SCHEME, Summary
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.streams.commands.app import app
from ragweir.streams.console.safety.authentication import KEPT, read_token
from ragweir.streams.console.service import PACKAGES
from ragweir.streams.console.service import SERVICE as CONSOLE
from ragweir.streams.playground.local.node import KAFKA_VERSION
from ragweir.streams.playground.local.prometheus import Programs
from ragweir.streams.runtime.processes.supervisor import UP_PORT
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.export.exposition import Exposition, label_names
from ragweir.streams.services.export.service import PROJECTIONS
from ragweir.streams.services.export.shift_series import FAMILIES as SHIFTS
from ragweir.streams.services.instruments import TABLE
from ragweir.streams.services.judge.from_settings import judge_config
from ragweir.streams.services.judge.pricing import price_of
from ragweir.streams.services.judge.probe import SIMULATED
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.settings import DEFAULT_ROUTING_KEY, Settings, TelemetrySettings, load

DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMAGE = f"ragweir:{PROJECT['version']}"
READERS = {**PROJECTIONS, CONSOLE.name: CONSOLE}
"""The services that are no members of a group."""
PORTS = {name: Settings().telemetry.port + service.port for name, service in {**SERVICES, **READERS}.items()}
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
OURS = ("topics", *PORTS, "simulated-judge")
JUDGED = ("judge", "simulated-judge")
"""What runs only where somebody asks for a judge."""
ASSEMBLING = ("key", "join")
"""The services that run only where traces are read."""
FEEDBACK = ("match", "tally")
"""The services that run only where users give feedback."""
ABSENT = ("judge", *ASSEMBLING, *FEEDBACK, CONSOLE.name)
MANIFESTS: list[dict[str, Any]] = [
    document
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for document in yaml.safe_load_all(file.read_text())
    if file.name != "kustomization.yaml"
]
KUSTOMIZATION: dict[str, Any] = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())


def of_kind(*kinds: str) -> dict[str, dict[str, Any]]:
    """The manifests of some kinds, by their components."""
    return {
        manifest["metadata"]["name"].removeprefix("ragweir-"): manifest
        for manifest in MANIFESTS
        if manifest["kind"] in kinds
    }


WORKLOADS = of_kind("StatefulSet", "Deployment")


def must_be_a_command(arguments: list[str]) -> None:
    """Whether ragweir has this command with these options, as its own parser sees it."""
    command = typer.main.get_command(app)
    context = command.make_context("ragweir", list(arguments))
    while getattr(command, "commands", None) and (context._protected_args or context.args):
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, rest, parent=context)


def settings_of(text: str, folder: Path) -> Settings:
    """What a settings file comes to."""
    file = folder / "ragweir.toml"
    file.write_text(text)
    return load(file)


# The dashboard.

DASHBOARD: dict[str, Any] = json.loads((DEPLOY / "grafana" / "ragweir.json").read_text())
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
OWN_VARIABLES = {"__rate_interval", "__from", "__to", "__field"}
"""Variables of Grafana itself."""
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [target["expr"].replace("$__rate_interval", "5m") for panel in PANELS for target in panel["targets"]]


def exposed() -> dict[str, set[str]]:
    """The labels of every series that ragweir's services show, those of Prometheus itself among them."""
    series: dict[str, set[str]] = {}
    for line in TABLE:
        names = [f"{line.name}_{part}" for part in ("bucket", "sum", "count")] if line.kind == "histogram" else []
        for name in names or [line.name]:
            series[name] = {"instance", "job", *line.labels, *(["le"] if name.endswith("_bucket") else [])}
    dimensions = Settings().windows.dimensions
    summary = Summary.of([1.0], DEFAULT_SCHEME)
    contents = WindowAggregate(
        1, 0, {"mean": summary, "truth": summary}, {"category": {"A": 1}}, {"suite": {"status": 1}}
    )
    # One of which all is known, and one with too few events for an interval.
    known, drawn = Estimate(EstimatedMetric("suite")), Estimate(EstimatedMetric("other"))
    known.add(1.0, 1.0)
    drawn.add(1.0, 0.5)
    contents.estimates = {estimate_name("judged", "A"): known, estimate_name("judged", "B"): drawn}
    exposition = Exposition(dimensions, ["truth"])
    exposition.show([ClosedWindow("1m", 0, 60, {("",) * len(dimensions): contents})])
    for sample in exposition.content.decode().splitlines():
        if not sample.startswith("#"):
            name, _, rest = sample.partition("{")
            series.setdefault(name, {"instance", "job"}).update(re.findall(r'(\w+)="', rest))
    return series | {family.name: {"instance", "job", "application", "metric"} for family in SHIFTS}


def test_the_dashboard_is_kept_as_jq_writes_it() -> None:
    """A dashboard that Grafana exported differs only where it was changed."""
    canonical = json.dumps(DASHBOARD, indent=2, sort_keys=True, ensure_ascii=False)
    assert (DEPLOY / "grafana" / "ragweir.json").read_text() == f"{canonical}\n"


def test_windows_are_shown_and_chosen_by_their_dimensions() -> None:
    """Each default dimension is a variable of many values, and stands in every query of windows, but for shifts."""
    labels = label_names(Settings().windows.dimensions)
    for name in labels:
        variable = VARIABLES[name]
        assert variable["query"] == f"label_values(ragweir_window_events, {name})"
        # It matches series without the label as well, whose windows have other dimensions.
        assert (variable["multi"], variable["includeAll"], variable["allValue"]) == (True, True, ".*")
    chosen = ",".join(f'{name}=~"${name}"' for name in labels)
    queries = [expression for expression in EXPRESSIONS if re.search(r"ragweir_window_(?!shift)\w+\{", expression)]
    assert queries
    for expression in queries:
        assert re.fullmatch(
            rf"max by \({', '.join(labels)}[\w, ]*\) \(\w+\{{[^}}]+,{re.escape(chosen)}\}}\)", expression
        ), expression


def test_variables_list_labels_of_series_that_exist() -> None:
    series = exposed()
    queries = [variable["query"] for variable in VARIABLES.values() if variable["type"] == "query"]
    assert queries
    for query in queries:
        name, label = re.fullmatch(r'label_values\((?:\{__name__=~")?([^"]+?)(?:"\})?, (\w+)\)', query).groups()
        asked = {each for each in series if re.fullmatch(name, each)}
        assert asked, query
        assert all(label in series[each] for each in asked), query


def test_everything_in_the_dashboard_reads_the_chosen_source() -> None:
    readers = [*PANELS, *chain.from_iterable(panel["targets"] for panel in PANELS)]
    readers += [variable for variable in VARIABLES.values() if variable["type"] == "query"]
    assert all(each["datasource"] == {"type": "prometheus", "uid": "${datasource}"} for each in readers)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_asks_only_for_series_and_labels_that_exist(expression: str) -> None:
    series = exposed()
    used = set(re.findall(r"\bragweir_\w+", expression))
    assert used
    assert used <= series.keys()
    labels = {
        label
        for found in re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)|\{([^}]*)\}", expression)
        for label in re.findall(r"(\w+)(?=\s*(?:=|,|$))", re.sub(r'"[^"]*"', '""', found[0] or found[1]))
    }
    assert labels <= set(chain.from_iterable(series[name] for name in used))


def test_the_dashboard_shows_every_series_of_windows() -> None:
    windows = {name for name in exposed() if name.startswith("ragweir_window_")} - {line.name for line in TABLE}
    windows -= {family.name for family in SHIFTS}  # Of some of them only.
    assert windows == set(re.findall(r"\bragweir_window_\w+", " ".join(EXPRESSIONS))) & windows


def test_prometheus_can_parse_every_expression(tools: Programs, tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": expression} for number, expression in enumerate(EXPRESSIONS)]
    # Only the text box stands in an expression outside of quotes.
    text = json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}).replace("$objective", "0.95")
    (tmp_path / "rules.yml").write_text(text)
    checked = program(tools.promtool, "check", "rules", tmp_path / "rules.yml")
    assert checked.returncode == 0, checked.stderr
    assert f"{len(rules)} rules found" in checked.stdout


def test_panels_and_queries_have_ids_of_their_own() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in PANELS:
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)
        assert all(refs)


def test_no_two_panels_lie_upon_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_every_variable_in_the_dashboard_is_declared() -> None:
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(PANELS))) - OWN_VARIABLES <= VARIABLES.keys()


def test_grafana_finds_its_source_and_its_dashboards_where_compose_puts_them() -> None:
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((provisioning / "dashboards" / "ragweir.yaml").read_text())["providers"]
    assert source["url"] == "http://prometheus:9090"
    mounted = [volume.split(":")[1] for volume in COMPOSE["services"]["grafana"]["volumes"]]
    assert f"{provider['options']['path']}/ragweir.json" in mounted


# The image.

DOCKERFILE = (DEPLOY / "docker" / "Dockerfile").read_text()


def locked(file: Path) -> dict[str, str]:
    """The pinned packages of a lock, each with its marker and its hashes."""
    text = re.sub(r"^\s*#.*\n", "", file.read_text(), flags=re.MULTILINE)
    blocks = re.split(r"\n(?=\w)", text.strip())
    return {block.partition(" ")[0]: " ".join(sorted(re.findall(r"sha256:\w+", block))) for block in blocks}


@pytest.mark.parametrize("name", ["requirements.txt", "build-requirements.txt"])
def test_the_image_installs_what_the_tests_ran_with(name: str) -> None:
    """Same versions, same hashes; `make lock` renews all locks together."""
    ours, theirs = locked(ROOT / "requirements.txt"), locked(DEPLOY / "docker" / name)
    assert theirs.items() <= ours.items()
    assert all(theirs.values())


def test_the_image_holds_what_ragweir_and_its_judge_need_and_no_test_tool() -> None:
    def plain(requirement: str) -> str:
        return re.split(r"[<>=\[;! ]", requirement)[0].lower().replace(".", "-")

    held = {plain(line) for line in locked(DEPLOY / "docker" / "requirements.txt")}
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    extras = PROJECT["optional-dependencies"]
    assert {
        plain(each) for each in (*PROJECT["dependencies"], *extras["console"], *extras["judge"], *extras["semantic"])
    } <= held
    # The tokenizers need a package of Hugging Face, and that one needs YAML; rich shows Markdown.
    assert not ({plain(each) for each in (*groups["dev"], *extras["local"])} - {"pyyaml", "markdown-it-py"}) & held


def test_the_image_holds_what_the_pages_of_the_console_need() -> None:
    assert {*PACKAGES} <= {line.partition("==")[0] for line in locked(DEPLOY / "docker" / "requirements.txt")}


def test_the_image_holds_every_package_that_calling_the_judge_imports() -> None:
    """An extra can leave out what another package needs only where it is used so, as openai does with aiohttp."""
    code = (ROOT / "streams" / "services" / "judge" / "client.py").read_text()
    imported = {name.partition(".")[0] for name in re.findall(r"^(?:import|from) (\S+)", code, re.MULTILINE)}
    held = {name.partition("==")[0].replace("-", "_") for name in locked(DEPLOY / "docker" / "requirements.txt")}
    assert imported - set(sys.stdlib_module_names) - {"ragweir"} <= held


def test_all_that_the_image_copies_exists_and_is_let_through() -> None:
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    lines = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().splitlines()
    assert {line[1:] for line in lines if line.startswith("!")} == sources
    assert all((ROOT / source).exists() for source in sources)
    assert set(PROJECT["license-files"]) | {PROJECT["readme"], "pyproject.toml"} <= sources


def test_the_image_runs_as_a_user_that_is_not_root() -> None:
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER (\d+):(\d+)$", final, re.MULTILINE).groups() == ("10001", "10001")
    assert 'ENTRYPOINT ["ragweir"]' in final


# Versions.


def test_one_version_of_ragweir_everywhere() -> None:
    named = [COMPOSE["services"][name]["image"] for name in OURS]
    named += [container["image"] for pod in WORKLOADS.values() for container in containers(pod)]
    named += re.findall(r"--tag (\S+)", DOCKERFILE)
    assert set(named) == {IMAGE}


def test_every_other_image_has_a_version() -> None:
    images = re.findall(r"^\s*image: (\S+)$", (DEPLOY / "compose.yaml").read_text(), re.MULTILINE)
    images += re.findall(r"^ARG PYTHON=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert images
    assert all(re.search(r"\d+\.\d+", image) for image in images), images


# Compose.

SIMULATED_PORT = next(
    option.default
    for option in typer.main.get_command(app).commands["simulate-judge"].params  # type: ignore[attr-defined]
    if option.name == "port"
)


def env_file(name: str) -> dict[str, str]:
    """The variables of an env file of compose, which adds a part."""
    words = shlex.split((DEPLOY / f"{name}.env").read_text(), comments=True)
    return dict(word.split("=", 1) for word in words)


simulated = partial(env_file, "simulated-judge")
traces = partial(env_file, "traces")
feedback = partial(env_file, "feedback")
pages = partial(env_file, "console")


def secrets_of(folder: Path) -> dict[str, str]:
    """What deploy/secrets.sh makes in a folder."""
    subprocess.run([DEPLOY / "secrets.sh", folder], check=True, capture_output=True)
    return dict(line.split("=", 1) for line in (folder / ".env").read_text().split())


def test_a_key_of_the_routing_is_made_once_and_is_the_owners_alone(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("RAGWEIR_JUDGE__API_KEY=mine")
    made = secrets_of(tmp_path)
    assert re.fullmatch("[0-9a-f]{32}", made["RAGWEIR_ROUTING__KEY"])
    assert made["RAGWEIR_JUDGE__API_KEY"] == "mine"
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o600
    assert secrets_of(tmp_path) == made
    other = tmp_path / "other"
    other.mkdir()
    assert secrets_of(other)["RAGWEIR_ROUTING__KEY"] != made["RAGWEIR_ROUTING__KEY"]
    assert "deploy/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_compose_starts_without_no_key_of_the_routing() -> None:
    """Compose ends with what stands after `:?` where the variable is not set; the judge and others do not get it."""
    own = {name: service.get("environment", {}) for name, service in COMPOSE["services"].items()}
    assert own["evaluate"]["RAGWEIR_ROUTING__KEY"] == "${RAGWEIR_ROUTING__KEY:?run deploy/secrets.sh once}"
    assert [name for name, variables in own.items() if "RAGWEIR_ROUTING__KEY" in variables] == ["evaluate"]


def scraping(variables: Mapping[str, str]) -> Any:
    """What Prometheus is configured with: compose puts in what stands after `:+` where the variable is set."""
    text = COMPOSE["configs"]["scrape"]["content"]
    return yaml.safe_load(re.sub(r"\$\{(\w+):\+([^}]*)\}", lambda m: m[2] if variables.get(m[1]) else "", text))


def scraped(configuration: Any) -> list[str]:
    """The targets of a configuration of Prometheus."""
    jobs = configuration["scrape_configs"]
    return [target for job in jobs for config in job["static_configs"] for target in config["targets"]]


def environment_of(name: str, variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a service in compose; those without a value come from the env file, or are left out.

    What stands as `${NAME:?...}` has to come from there.
    """
    own: dict[str, str | None] = COMPOSE["services"][name].get("environment", {})
    put_in = {
        key: given and re.sub(r"\$\{(\w+):\?[^}]*\}", lambda m: variables[m[1]], given) for key, given in own.items()
    }
    return {key: value for key, given in put_in.items() if (value := given or variables.get(key)) is not None}


def test_compose_runs_the_kafka_of_the_tests() -> None:
    extended = COMPOSE["services"]["kafka"]["extends"]
    kafka = yaml.safe_load((DEPLOY / extended["file"]).read_text())["services"][extended["service"]]
    assert kafka["image"] == f"apache/kafka:{KAFKA_VERSION}"
    published = [*kafka["ports"], *chain.from_iterable(each.get("ports", []) for each in COMPOSE["services"].values())]
    assert len(published) == 5
    assert all(port.startswith("127.0.0.1:") for port in published)


@pytest.mark.parametrize("name", OURS)
def test_compose_runs_commands_that_exist_without_privileges(name: str) -> None:
    service = COMPOSE["services"][name]
    must_be_a_command(service["command"])
    assert service["read_only"]
    assert service["user"] == "10001:10001"
    assert service["cap_drop"] == ["ALL"]


@pytest.mark.parametrize(("name", "port"), PORTS.items())
def test_compose_asks_and_scrapes_each_service_on_its_own_port(name: str, port: int) -> None:
    """And the judge only where there is one: a target that is not there would page somebody."""
    service = COMPOSE["services"][name]
    assert f"http://127.0.0.1:{port}/readyz" in service["healthcheck"]["test"][-1]
    assert f"{name}:{port}" in scraped(scraping(simulated() | traces() | feedback() | pages()))
    assert (f"{name}:{port}" in scraped(scraping({}))) == (name not in ABSENT)
    assert service["hostname"] == name  # A host name that changed would be another member of the group.


@pytest.mark.parametrize("judge", [False, True])
def test_compose_scrapes_and_alerts_as_the_prometheus_beside_ragweir_does(judge: bool) -> None:
    """But for where the services are found, the configuration in compose is that of deploy/prometheus."""

    def shape(configuration: Any) -> Any:
        del configuration["rule_files"]
        for job in configuration["scrape_configs"]:
            assert {"static_configs", "http_sd_configs"} & job.keys()
            job.pop("static_configs", None)
            job.pop("http_sd_configs", None)
        return json.loads(re.sub(r'"[\w.]+:(\d+)"', r'":\1"', json.dumps(configuration)))

    beside = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    assert shape(scraping(simulated() if judge else {})) == shape(beside)


def test_prometheus_beside_ragweir_asks_the_supervisor_of_up() -> None:
    beside = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    (job,) = beside["scrape_configs"]
    assert [each["url"] for each in job["http_sd_configs"]] == [
        f"http://127.0.0.1:{TelemetrySettings().port + UP_PORT}/targets"
    ]


def with_all(text: str) -> Any:
    """A YAML file in which the lines about services that may be absent are no comments."""
    return yaml.safe_load(re.sub(r"# (- (?:judge|key|join|match|tally|console)\.yaml)", r"\1", text))


def with_comments(text: str) -> str:
    """A settings file in which the settings that are comments are settings."""
    return re.sub(r"^# (\[\w+\]|[\w.\"-]+ = )", r"\1", text, flags=re.MULTILINE)


def test_everything_that_stays_up_in_compose_is_watched_and_restarted() -> None:
    for name, service in COMPOSE["services"].items():
        if "extends" not in service and service["restart"] != "no":
            assert service["restart"] == "unless-stopped", name
            assert service["healthcheck"]["test"][0] == "CMD", name


def test_what_compose_copies_into_containers_goes_into_none_that_is_read_only() -> None:
    """Docker Compose writes such a file into the container's own file system, and rejects where it may not."""
    for name, service in COMPOSE["services"].items():
        assert not (service.get("read_only") and service.get("configs")), name


@pytest.mark.parametrize("judge", [False, True])
@pytest.mark.parametrize("name", PORTS)
def test_compose_gives_its_services_settings_that_are_right(
    name: str, judge: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in environment_of(name, secrets_of(tmp_path) | (simulated() if judge else {})).items():
        monkeypatch.setenv(variable, value)
    settings = settings_of("", tmp_path)
    assert settings.telemetry.host == "0.0.0.0"
    inside = settings.kafka.bootstrap_servers
    assert f"INSIDE://{inside}" in COMPOSE["services"]["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    if name == "evaluate":
        assert (evaluate_config(settings, settings.input_topic).router is not None) == judge
        assert settings.routing.key != DEFAULT_ROUTING_KEY
    if name == "judge" and judge:
        assert price_of(judge_config(settings, 1).judge, settings.judge.model).output_usd > 0
        assert settings.judge.base_url == f"http://simulated-judge:{SIMULATED_PORT}/v1"
        assert settings.judge.model == SIMULATED  # Every judged evaluation says what it was judged by.


def test_a_judge_in_compose_is_only_there_when_asked_for() -> None:
    services = COMPOSE["services"]
    assert {name for name, service in services.items() if "profiles" in service} == {*JUDGED, *ABSENT}
    asked = simulated()["COMPOSE_PROFILES"].split(",")
    assert {name for name in JUDGED if set(services[name]["profiles"]) & set(asked)} == set(JUDGED)
    # A judge of one's own comes without the simulated one, and nothing waits for either.
    assert not set(services["judge"]["profiles"]) & set(services["simulated-judge"]["profiles"])
    assert not [name for name, service in services.items() if set(JUDGED) & set(service.get("depends_on", {}))]


def test_traces_are_assembled_in_compose_where_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The services that assemble and the one that reads what they write then have the same input."""
    services = COMPOSE["services"]
    assert all(services[name]["profiles"] == [traces()["COMPOSE_PROFILES"]] for name in ASSEMBLING)
    for name in ("evaluate", *ASSEMBLING):
        with monkeypatch.context() as patch:
            for variable, value in environment_of(name, secrets_of(tmp_path) | traces()).items():
                patch.setenv(variable, value)
            settings = settings_of("", tmp_path)
        assert settings.reads_traces, name
        assert settings.input_topic == "rag.interactions"
        assert settings.trace_topics == ("otlp_spans",)


def test_feedback_is_joined_in_compose_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store of answers is in the only folder that can be written."""
    services = COMPOSE["services"]
    assert all(services[name]["profiles"] == [feedback()["COMPOSE_PROFILES"]] for name in FEEDBACK)
    for variable, value in environment_of("match", secrets_of(tmp_path) | feedback()).items():
        monkeypatch.setenv(variable, value)
    folder = settings_of("", tmp_path).feedback.folder
    assert [each.partition(":")[0] for each in services["match"]["tmpfs"]] == [str(folder)]
    (mount,) = [each for each in containers(WORKLOADS["match"])[0]["volumeMounts"] if each["name"] == "store"]
    assert mount["mountPath"] == str(folder)


def test_the_console_in_compose_is_reached_on_loopback_and_keeps_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a volume, whose folder the image makes for the user that it runs as."""
    service = COMPOSE["services"]["console"]
    assert service["profiles"] == [pages()["COMPOSE_PROFILES"]]
    for variable, value in environment_of("console", secrets_of(tmp_path) | pages()).items():
        monkeypatch.setenv(variable, value)
    own = settings_of("", tmp_path).console
    assert service["ports"] == [f"127.0.0.1:{own.port}:{own.port}"]
    assert own.public_url == f"http://127.0.0.1:{own.port}"
    assert (own.host, own.token_file) == ("0.0.0.0", None)
    assert service["volumes"] == [f"console:{own.folder}"]
    assert f"install --directory --owner=10001 --group=10001 --mode=700 {own.folder}\n" in DOCKERFILE
    assert f"exec console cat {own.folder}/{KEPT}" in (DEPLOY / "console.env").read_text()


def test_what_the_env_file_sets_reaches_the_judge_and_its_key_nobody_else() -> None:
    own = {name: COMPOSE["services"][name].get("environment", {}) for name in COMPOSE["services"]}
    assert simulated().keys() - {"COMPOSE_PROFILES"} <= own["judge"].keys()
    assert [name for name, variables in own.items() if "RAGWEIR_JUDGE__API_KEY" in variables] == ["judge"]


def test_compose_mounts_only_what_is_there() -> None:
    named = set(COMPOSE["volumes"])
    for name, service in COMPOSE["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in named or (DEPLOY / source).exists(), (name, volume)


# Kubernetes.


def containers(workload: dict[str, Any]) -> list[dict[str, Any]]:
    """The containers of a workload's pods."""
    found: list[dict[str, Any]] = workload["spec"]["template"]["spec"]["containers"]
    return found


def test_kubernetes_runs_every_service() -> None:
    assert WORKLOADS.keys() == PORTS.keys()
    assert {name for name, workload in WORKLOADS.items() if workload["kind"] == "StatefulSet"} == SERVICES.keys()


@pytest.mark.parametrize("name", PORTS)
def test_what_selects_pods_selects_those_of_its_own_workload(name: str) -> None:
    workload = WORKLOADS[name]
    labels = workload["spec"]["template"]["metadata"]["labels"]
    others = [each["spec"]["template"]["metadata"]["labels"] for other, each in WORKLOADS.items() if other != name]
    service = of_kind("Service")[name]
    for selector in (
        workload["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        of_kind("PodDisruptionBudget")[name]["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
        assert not any(selector.items() <= other.items() for other in others)
    if workload["kind"] == "StatefulSet":
        assert workload["spec"]["serviceName"] == service["metadata"]["name"]
        assert service["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize(("name", "port"), PORTS.items())
def test_probes_and_scrapes_reach_the_telemetry(name: str, port: int) -> None:
    (container,) = containers(WORKLOADS[name])
    assert container["ports"][0] == {"name": "telemetry", "containerPort": port}
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")):
        assert container[probe]["httpGet"] == {"path": path, "port": "telemetry"}
    served = of_kind("Service")[name]["spec"]["ports"][0]
    assert (served["port"], served["targetPort"]) == (port, "telemetry")
    (monitor,) = of_kind("ServiceMonitor").values()
    assert [endpoint["port"] for endpoint in monitor["spec"]["endpoints"]] == [served["name"]]
    labels = of_kind("Service")[name]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("name", PORTS)
def test_pods_are_bounded_and_have_no_privileges(name: str) -> None:
    pod = WORKLOADS[name]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["terminationGracePeriodSeconds"] >= 15
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"].keys() == container["resources"]["limits"].keys() == {"cpu", "memory"}


def variables() -> Iterator[str]:
    """Every RAGWEIR_ variable that deploy/ sets."""
    for file in (*DEPLOY.glob("kubernetes/*.yaml"), DEPLOY / "compose.yaml", DEPLOY / "docker" / "Dockerfile"):
        yield from re.findall(r"\bRAGWEIR_\w*[A-Z]\b", file.read_text())


@pytest.mark.parametrize("variable", sorted(set(variables())))
def test_every_variable_names_a_setting(variable: str) -> None:
    model: Any = Settings
    for name in variable.removeprefix("RAGWEIR_").lower().split("__"):
        assert issubclass(model, BaseModel)
        model = model.model_fields[name].annotation


def test_the_settings_in_kubernetes_are_right(tmp_path: Path) -> None:
    settings = settings_of((DEPLOY / "kubernetes" / "ragweir.toml").read_text(), tmp_path)
    assert settings.telemetry.host == "0.0.0.0"
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    for pod in WORKLOADS.values():
        names = [
            volume["configMap"]["name"]
            for volume in pod["spec"]["template"]["spec"]["volumes"]
            if "configMap" in volume
        ]
        assert names == [generated["name"]]


def test_the_kustomization_names_the_files_of_all_services_some_as_a_comment() -> None:
    """The judge would only restart without an endpoint, key and join without traces; not all have feedback."""
    assert set(KUSTOMIZATION["resources"]) == {f"{name}.yaml" for name in PORTS if name not in ABSENT}
    whole = with_all((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())
    assert set(whole["resources"]) == {f"{name}.yaml" for name in PORTS}


def test_the_judge_in_kubernetes_works_once_its_comments_are_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (DEPLOY / "kubernetes" / "ragweir.toml").read_text()
    assert settings_of(text, tmp_path).judge.base_url is None
    (container,) = containers(WORKLOADS["judge"])
    for each in container["env"]:
        if "value" in each:
            monkeypatch.setenv(each["name"], each["value"])
    settings = settings_of(with_comments(text), tmp_path)
    assert settings.reads_traces
    assert price_of(judge_config(settings, 1).judge, settings.judge.model).input_usd > 0
    assert settings.judge.slots == WORKLOADS["judge"]["spec"]["replicas"]
    # The key's file is the one that the Secret's only entry becomes.
    (secret,) = [
        manifest
        for manifest in MANIFESTS
        if manifest["metadata"]["name"] == "ragweir-judge" and manifest["kind"] == "Secret"
    ]
    (volume,) = [each for each in WORKLOADS["judge"]["spec"]["template"]["spec"]["volumes"] if "secret" in each]
    assert volume["secret"] == {"secretName": secret["metadata"]["name"]}
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == volume["name"]]
    (entry,) = secret["stringData"]
    assert settings.judge.api_key_file == Path(mount["mountPath"]) / entry


def test_a_label_of_ours_stays_what_it_is_where_the_operator_has_one_of_the_same_name() -> None:
    """It calls the Kubernetes Service `service`, as ragweir_build_info calls what it runs."""
    assert "service" in next(line.labels for line in TABLE if line.name == "ragweir_build_info")
    (monitor,) = of_kind("ServiceMonitor").values()
    assert all(endpoint["honorLabels"] for endpoint in monitor["spec"]["endpoints"])


def test_the_example_secret_signs_every_service_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (secret,) = [manifest for manifest in MANIFESTS if "aggregate" in manifest.get("stringData", {})]
    for name, workload in WORKLOADS.items():
        (container,) = containers(workload)
        (wanted,) = [each for each in container["env"] if each["name"] == "RAGWEIR_KAFKA__CLIENT"]
        assert wanted["valueFrom"]["secretKeyRef"]["name"] == secret["metadata"]["name"]
        monkeypatch.setenv("RAGWEIR_KAFKA__CLIENT", secret["stringData"][wanted["valueFrom"]["secretKeyRef"]["key"]])
        assert settings_of("", tmp_path).kafka.client["sasl.username"] == f"ragweir-{name}"


def test_kubernetes_takes_the_key_of_the_routing_from_a_secret_that_has_to_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it no pod of evaluate starts, and with the example's neither."""
    taken = {
        name: each["valueFrom"]["secretKeyRef"]
        for name, workload in WORKLOADS.items()
        for each in containers(workload)[0]["env"]
        if each["name"] == "RAGWEIR_ROUTING__KEY"
    }
    assert taken == {"evaluate": {"name": "ragweir-routing", "key": "key"}}
    (secret,) = [m for m in MANIFESTS if m["kind"] == "Secret" and m["metadata"]["name"] == "ragweir-routing"]
    monkeypatch.setenv("RAGWEIR_ROUTING__KEY", secret["stringData"]["key"])
    with pytest.raises(ConfigurationError, match=r"routing\.key"):
        settings_of("", tmp_path)


@pytest.mark.parametrize("slot", [0, 7])
@pytest.mark.parametrize("name", SERVICES)
def test_a_pods_ordinal_is_its_slot_and_its_port_is_always_the_same(name: str, slot: int, tmp_path: Path) -> None:
    """The pod's own command line, run by a shell with something else in ragweir's place."""
    (container,) = containers(WORKLOADS[name])
    (ordinal,) = [each for each in container["env"] if each["name"] == "SLOT"]
    assert ordinal["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.labels['apps.kubernetes.io/pod-index']"
    stand_in = tmp_path / "ragweir"
    stand_in.write_text('#!/bin/sh\necho "$RAGWEIR_TELEMETRY__PORT" "$@"\n')
    stand_in.chmod(0o755)
    line = [text.replace("$$", "$") for text in (*container["command"], *container["args"])]
    shown = program(*line, env={"PATH": f"{tmp_path}:/usr/bin:/bin", "SLOT": str(slot)})
    base, *arguments = shown.stdout.split()
    must_be_a_command(arguments)
    assert arguments[-3:] == [name, "--slot", str(slot)]
    assert int(base) + SERVICES[name].port + slot == container["ports"][0]["containerPort"]


@pytest.mark.parametrize("name", READERS)
def test_the_arguments_of_a_reader_are_those_of_a_command(name: str) -> None:
    (container,) = containers(WORKLOADS[name])
    must_be_a_command(container["args"])


def test_the_console_in_kubernetes_works_once_its_comments_are_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the token of a Secret, which the group of the pod alone may read, and not with the example's."""
    (container,) = containers(WORKLOADS["console"])
    for each in container["env"]:
        if "value" in each:
            monkeypatch.setenv(each["name"], each["value"])
    text = (DEPLOY / "kubernetes" / "ragweir.toml").read_text()
    with pytest.raises(ConfigurationError, match="public_url"):
        settings_of(text, tmp_path)
    own = settings_of(with_comments(text), tmp_path).console
    mounts = {each["name"]: each for each in container["volumeMounts"]}
    volumes = {each["name"]: each for each in WORKLOADS["console"]["spec"]["template"]["spec"]["volumes"]}
    assert str(own.folder) == mounts["store"]["mountPath"]
    (claim,) = of_kind("PersistentVolumeClaim").values()
    assert volumes["store"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert int(claim["spec"]["resources"]["requests"]["storage"].removesuffix("Gi")) * 2**30 > 1.5 * own.max_bytes
    secret = volumes["token"]["secret"]
    (made,) = [each for each in MANIFESTS if each["kind"] == "Secret" and "token" in each["stringData"]]
    assert (secret["secretName"], secret["defaultMode"]) == (made["metadata"]["name"], 0o440)
    assert mounts["token"]["readOnly"]
    assert own.token_file == Path(mounts["token"]["mountPath"]) / "token"
    (tmp_path / "token").write_text(made["stringData"]["token"])
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ConfigurationError, match="at least 20"):
        read_token(own.model_copy(update={"token_file": tmp_path / "token"}))
    assert WORKLOADS["console"]["spec"]["strategy"] == {"type": "Recreate"}, "one process writes the store"
    (port,) = [each for each in container["ports"] if each["name"] == "pages"]
    assert port["containerPort"] == own.port


def test_the_pages_in_kubernetes_are_reached_by_the_ingress_alone() -> None:
    (policy,) = of_kind("NetworkPolicy").values()
    labels = WORKLOADS["console"]["spec"]["template"]["metadata"]["labels"]
    assert policy["spec"]["podSelector"]["matchLabels"] == labels
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    from_all = [rule for rule in policy["spec"]["ingress"] if "from" not in rule]
    assert [each["port"] for rule in from_all for each in rule["ports"]] == ["telemetry"]
    others = [rule for rule in policy["spec"]["ingress"] if "from" in rule]
    assert [each["port"] for rule in others for each in rule["ports"]] == ["pages"]
    assert of_kind("Service")["console"]["spec"]["publishNotReadyAddresses"], "pages are shown while topics are read"
