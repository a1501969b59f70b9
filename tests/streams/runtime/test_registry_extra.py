"""Without the extra `registry` commands work, and what needs its packages says which one is missing."""

import subprocess
import sys

import pytest

from ragweir.errors import ConfigurationError
from ragweir.streams.runtime.registry.client import RegistryClient
from ragweir.streams.services.shared.from_settings import decoder
from ragweir.streams.settings import RegistrySettings, Settings

URL = "http://127.0.0.1:9"


def test_a_registry_without_its_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(ConfigurationError, match="needs the package httpx"):
        RegistryClient(RegistrySettings(url=URL))


def test_avro_without_its_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    monkeypatch.delitem(sys.modules, "ragweir.schemas.registry.avro", raising=False)
    with pytest.raises(ConfigurationError, match="need the package fastavro"):
        decoder(Settings(input={"format": "avro"}, registry={"url": URL}))


@pytest.mark.heavy
@pytest.mark.parametrize("command", ["tap", "doctor", "dead_letter", "topics"])
def test_commands_are_there_without_it(command: str) -> None:
    """In another process, as modules that are loaded stay so."""
    code = f"import sys; sys.modules.update(httpx=None, fastavro=None); import ragweir.streams.commands.{command}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
