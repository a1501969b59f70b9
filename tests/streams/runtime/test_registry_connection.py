"""The connection to a registry: who asks is told to a real server, over TLS, by the properties of `registry.client`.

The messages about the certificates of a judge and of Kafka are tested on the same server.
"""

import base64
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from certificates import make_certificates, server_tls
from confluent_kafka.admin import AdminClient

from ragweir.errors import ConfigurationError, PermanentError, RegistryUnavailable, RegistryUnusable
from ragweir.streams.playground.serving import Reply, Request, serving
from ragweir.streams.runtime.kafka.client import Connection, build, client_properties, partition_counts
from ragweir.streams.runtime.registry.client import RegistryClient
from ragweir.streams.services.judge.probe import error_message, probe
from ragweir.streams.services.judge.protocol import JudgeError
from ragweir.streams.settings import JudgeSettings, KafkaSettings, RegistrySettings, Settings, load

pytestmark = pytest.mark.slow

SECRET = "a-secret-of-theirs"
BASIC = "Basic " + base64.b64encode(f"alice:{SECRET}".encode()).decode()
BEARER = f"Bearer {SECRET}"


@contextmanager
def registry(wanted: str = "", tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve a registry without subjects to those who send a header `Authorization`; yield its address."""

    def reply(request: Request) -> Reply:
        known = request.headers.get("authorization", "") == wanted
        return Reply(501 if request.method != "GET" else 200 if known else 401, b"[]")

    with serving(reply, tls=tls) as server:
        yield server.url


def subjects(url: str, **given: str) -> int:
    """Ask for the number of subjects; properties have underscores for dots."""
    client = {name.replace("_", "."): value for name, value in given.items()}
    with RegistryClient(RegistrySettings(url=url, client=client)) as asked:
        return asked.subjects()


@pytest.mark.parametrize(
    ("wanted", "name", "value"),
    [(BASIC, "basic_auth_user_info", f"alice:{SECRET}"), (BEARER, "bearer_auth_token", SECRET)],
    ids=["basic", "bearer"],
)
def test_the_registry_knows_who_asks(
    wanted: str, name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with registry(wanted) as url:
        assert subjects(url, **{name: value}) == 0
        for given in ({}, {name: value + "x"}):
            with pytest.raises(RegistryUnusable, match="the registry does not know who asks") as refused:
                subjects(url, **given)
            assert SECRET not in str(refused.value)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("RAGWEIR_REGISTRY__URL", url)
        monkeypatch.setenv(f"RAGWEIR_REGISTRY__CLIENT__{name.upper()}", value)
        with RegistryClient(load().registry) as from_the_environment:
            assert from_the_environment.subjects() == 0


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the certificates and keys of a server and of a client."""
    return make_certificates(tmp_path_factory.mktemp("keys"), SECRET)


def test_both_ends_show_their_certificates(keys: Path) -> None:
    own = {
        "ssl_certificate_location": str(keys / "client.pem"),
        "ssl_key_location": str(keys / "client.key"),
        "ssl_key_password": SECRET,
    }
    trusted = {"ssl_ca_location": str(keys / "server.pem")}
    with registry(tls=server_tls(keys)) as url:
        assert subjects(url, **own, **trusted) == 0
        with pytest.raises(
            RegistryUnavailable,
            match=r"its certificate is not trusted \(self-signed certificate\); set registry\.client with \"ssl\.ca",
        ):
            subjects(url, **own)
        with pytest.raises(RegistryUnavailable):
            subjects(url, **trusted)
        unset = {name: value for name, value in own.items() if name != "ssl_key_password"}
        for wrong in (unset, {**own, "ssl_key_password": "wrong"}, {**own, "ssl_ca_location": "/nowhere.pem"}):
            with pytest.raises(ConfigurationError, match=r"^registry\.client: "):
                subjects(url, **wrong)


def plain_tls(keys: Path) -> ssl.SSLContext:
    """Return TLS that asks for no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "server.pem", keys / "server.key")
    return context


def test_a_certificate_for_another_host_is_named(keys: Path) -> None:
    """Another CA would not help; a name that the certificate has does."""
    with registry(tls=plain_tls(keys)) as url, pytest.raises(RegistryUnavailable, match="is for another host") as wrong:
        subjects(url.replace("127.0.0.1", "localhost"), ssl_ca_location=str(keys / "server.pem"))
    assert "ssl.ca.location" not in str(wrong.value)


def test_the_certificate_of_a_judge_names_the_setting_that_makes_it_trusted(keys: Path) -> None:
    """With that setting the server is reached, which answers what no judge does."""
    with registry(tls=plain_tls(keys)) as url:
        judge = JudgeSettings(base_url=url, model="m")
        with pytest.raises(JudgeError) as wrong:
            probe(judge)
        assert error_message(judge, wrong.value) == (
            f"{url}: the judge's endpoint cannot be trusted: its certificate is not trusted (self-signed certificate); "
            "set judge.ca_file to the file of its CA"
        )
        trusted = judge.model_copy(update={"ca_file": keys / "server.pem"})
        with pytest.raises(JudgeError) as answered:
            probe(trusted)
        assert "the judge's endpoint fails (501)" in error_message(trusted, answered.value)


def test_the_certificate_of_kafka_names_its_setting(keys: Path) -> None:
    with registry(tls=plain_tls(keys)) as url:
        servers = url.removeprefix("https://")
        kafka = KafkaSettings(bootstrap_servers=servers, client={"security.protocol": "SSL"})
        connection = Connection(quiet=True)
        admin = build(AdminClient, client_properties(Settings(kafka=kafka), connection))
        with pytest.raises(PermanentError, match=r'set kafka\.client with "ssl\.ca\.location" to the file of its CA'):
            partition_counts(admin, connection, timeout_s=1)
