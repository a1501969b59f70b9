"""What is shown of settings holds no secret, wherever one may stand, and says as much as it can of the rest."""

from pathlib import Path
from typing import Any

import pytest

from ragweir.schemas.run import ReplayRequest
from ragweir.streams.analysis.replay.runs import fingerprint, result_affecting_settings
from ragweir.streams.runtime.text.masking import MASK, masked, masked_url
from ragweir.streams.settings import RoutingSettings, Settings, load

SECRET = "hunter2-Xq7"

URLS = (
    ("http://127.0.0.1:8089/v1", "http://127.0.0.1:8089/v1"),
    ("https://[::1]:8443/v1", "https://[::1]:8443/v1"),
    (f"https://me:{SECRET}@proxy.example:8443/v1", f"https://{MASK}@proxy.example:8443/v1"),
    (f"https://{SECRET}@proxy.example/v1", f"https://{MASK}@proxy.example/v1"),
    (f"https://a@b:{SECRET}@proxy.example/v1", f"https://{MASK}@proxy.example/v1"),
    (f"https://proxy.example/v1?api-version=7&key={SECRET}", f"https://proxy.example/v1?api-version=7&key={MASK}"),
    ("https://x.example/v1?api-version=2024-10-21-preview", "https://x.example/v1?api-version=2024-10-21-preview"),
    (f"https://x.example/v1?api-version={SECRET}", f"https://x.example/v1?api-version={MASK}"),
    (f"https://proxy.example/v1?{SECRET}", f"https://proxy.example/v1?{MASK}"),
    (f"https://proxy.example?{SECRET}@x", f"https://proxy.example?{MASK}"),
    (f"https://proxy.example/v1#{SECRET}", f"https://proxy.example/v1#{MASK}"),
    # Passwords that nobody has escaped: where the host begins cannot be told.
    (f"https://me:{SECRET}/x@proxy.example/v1", f"https://{MASK}"),
    (f"https://me:x/{SECRET}@proxy.example/v1", f"https://{MASK}"),
    (f"https://me:x?{SECRET}@proxy.example/v1", f"https://{MASK}"),
    (f"https://me:x#{SECRET}@proxy.example/v1", f"https://{MASK}"),
    (f"me:{SECRET}@proxy.example/v1", MASK),
    (f"proxy.example/v1?key={SECRET}", MASK),
    (f"https://one.example, https://me:{SECRET}@two.example", f"https://one.example, https://{MASK}@two.example"),
)


@pytest.mark.parametrize(("url", "shown"), URLS)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert masked_url(url) == shown
    assert SECRET not in shown


SECRETS: tuple[dict[str, Any], ...] = (
    {"judge": {"api_key": SECRET}},
    {"judge": {"headers": {"x-plain": SECRET}}},
    {"judge": {"query": {"sig": SECRET}}},
    {"judge": {"query": {"api-version": SECRET}}},
    {"judge": {"extra_body": {"metadata": {"user": [SECRET]}}}},
    {"judge": {"proxy": f"http://me:{SECRET}@proxy.example:3128"}},
    {"judge": {"certificate_key_password": SECRET}},
    {"judge": {"base_url": f"https://me:{SECRET}@proxy.example/v1"}},
    {"routing": {"key": SECRET}},
    {"labels": {"key": SECRET}},
    {"kafka": {"bootstrap_servers": f"SASL_SSL://me:{SECRET}@kafka:9092,kafka2:9092"}},
    *(
        {"kafka": {"client": {name: SECRET}}}
        for name in (
            "sasl.password",
            "ssl.key.password",
            "ssl.key.pem",
            "ssl.certificate.pem",
            "ssl.keystore.password",
            "sasl.oauthbearer.client.secret",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.assertion.private.key.pem",
            "sasl.oauthbearer.assertion.private.key.passphrase",
            "sasl.oauthbearer.config",
            "sasl.oauthbearer.extensions",
            "sasl.kerberos.kinit.cmd",
            "sasl.jaas.config",
            "a.plugins.own.property",
        )
    ),
    {"kafka": {"client": {"sasl.oauthbearer.token.endpoint.url": f"https://proxy.example/token?key={SECRET}"}}},
    {"kafka": {"client": {"ssl.ca.location": f"https://me:{SECRET}@proxy.example/ca.pem"}}},
)


@pytest.mark.parametrize("secret", SECRETS, ids=repr)
def test_secrets_are_masked(secret: dict[str, Any]) -> None:
    shown = masked(load(None, secret).model_dump(mode="json"))
    assert SECRET not in repr(shown)
    assert MASK in repr(shown)


def test_a_password_of_digits_is_a_password() -> None:
    shown = masked(load(None, {"kafka": {"client": {"sasl.password": 271828, "linger.ms": 7}}}).model_dump(mode="json"))
    assert shown["kafka"]["client"] == {"sasl.password": MASK, "linger.ms": 7}


def test_what_is_no_secret_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits on tokens, the way to a key's file, and most properties of librdkafka that help to find a mistake."""
    plain = {
        "client.id": "c",
        "compression.type": "lz4",
        "debug": "broker,security",
        "linger.ms": "7",
        "plugin.library.paths": "monitoring",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://proxy.example/token",
        "sasl.username": "u",
        "security.protocol": "SASL_SSL",
        "socket.keepalive.enable": True,
        "ssl.ca.location": "ca.pem",
        "ssl.key.location": "key.pem",
    }
    judge = {
        "max_output_tokens": 1234,
        "api_key_file": "key",
        "headers": {"api-key": {"file": "key"}, "x-key": {"variable": "A_KEY"}},
        "query": {"api-version": "2024-10-21"},
        "extra_body": {"reasoning_effort": "low", "seed": 7},
        "auth": "sign_in:headers",
        "proxy": "http://proxy.example:3128",
        "certificate_key_file": "client.key",
    }
    monkeypatch.chdir(tmp_path)
    settings = load(None, {"kafka": {"client": plain}, "judge": judge})
    data = settings.model_dump(mode="json")
    assert masked(data) == data
    assert MASK not in repr(masked(Settings().model_dump(mode="json")))


def fingerprints(**judge: Any) -> list[str]:
    """By two routing keys, of one run, as the record has them."""
    asked = ReplayRequest(judge="cached-only")
    found = []
    for key in ("one", "two"):
        settings = load(None, {"routing": {"key": key}, "judge": judge})
        kept = result_affecting_settings(settings, asked)
        assert key not in repr(masked(kept)).split("'")
        found.append(fingerprint(kept, "r"))
    return found


@pytest.mark.slow
def test_another_secret_is_another_fingerprint_and_the_same_secret_the_same() -> None:
    """A replay with another key would select other events; its record does not tell the key."""
    first, second = fingerprints()
    assert first != second
    assert [first, second] == fingerprints()
    assert not {first, second} & set(fingerprints(base_url=f"https://me:{SECRET}@proxy.example/v1"))
    settings = load(None, {"routing": {"key": "one"}})
    assert fingerprint(result_affecting_settings(settings, ReplayRequest(judge="cached-only")), "another-run") != first
    # What is asked with changes the answers; at their defaults runs of earlier releases go on.
    assert "temperature" not in result_affecting_settings(settings, ReplayRequest(judge="cached-only"))["judge"]
    assert not {first, second} & set(fingerprints(extra_body={"reasoning_effort": "low"}))
    # Nobody is asked, so that no key has a part in the results.
    never = {
        fingerprint(result_affecting_settings(load(None, {"routing": {"key": key}}), ReplayRequest()), "r")
        for key in ("one", "two")
    }
    assert len(never) == 1


def test_the_key_that_ships_is_shown() -> None:
    assert masked({"routing": {"key": RoutingSettings().key}}) == {"routing": {"key": "ragweir"}}
