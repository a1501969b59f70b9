"""Apicurio Registry, which has the API of Confluent's Schema Registry: fetched once with Maven, and run here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tarfile
import urllib.request
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local.cache_folder import cached
from ragweir.streams.playground.local.java import find_java
from ragweir.streams.playground.local.node import free_port
from ragweir.streams.playground.process import LocalProcess

VERSION = "2.5.11.Final"
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
_SHA256 = "f894a17f650ec427de72cfb68edfc30f8020743269293e58372e22f67fd4fd15"
_FETCH_SECONDS = 900
_START_SECONDS = 180
_JSON = "application/vnd.schemaregistry.v1+json"


def fetch() -> Path:
    """Return the folder of the program, which Maven fetches the first time (140 MB).

    Raises:
        LocalServerError: if Maven is missing or cannot fetch it, or its sum differs.
    """
    return cached(f"apicurio-{VERSION}", _fill)


def _fill(scratch: Path) -> Path:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise LocalServerError("the registry is fetched with Maven, and it is not installed")
    print(f"Fetching Apicurio Registry {VERSION} from Maven Central (140 MB, once)", flush=True)
    command = [mvn, "-B", "-q", "dependency:copy", f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={scratch}"]
    done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS)
    if done.returncode != 0:
        raise LocalServerError(f"Maven could not fetch the registry:\n{done.stdout[-1_000:]}")
    archive = next(scratch.glob("*.tar.gz"))
    if (found := sha256(archive.read_bytes()).hexdigest()) != _SHA256:
        raise LocalServerError(f"the registry's archive has the sum {found}, and not {_SHA256}")
    program = scratch / "program"
    with tarfile.open(archive) as packed:
        packed.extractall(program, filter="data")
    return program


class Registry:
    """A registry that keeps its schemas in memory.

    Args:
        folder: the folder of its log.
        port: its port; None for a free one.
    """

    def __init__(self, folder: Path, port: int | None = None) -> None:
        self._folder, self._port = folder, port or free_port()
        self._process: LocalProcess | None = None
        self.url = f"http://127.0.0.1:{self._port}/apis/ccompat/v7"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            LocalServerError: if it ends or does not answer.
        """
        java, _ = find_java()
        runner = next(fetch().glob("*-runner.jar"))
        log = self._folder / "registry.log"
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dquarkus.http.host=127.0.0.1"]
        environment = {**os.environ, "QUARKUS_HTTP_PORT": str(self._port)}
        self._process = LocalProcess(
            [java, *options, "-jar", str(runner)], log, folder=runner.parent, environment=environment
        )
        self._process.wait_until_ready("the registry", lambda: self._asked("subjects") is not None, _START_SECONDS)

    def stop(self) -> None:
        """Stop it; its schemas are lost."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def pause(self) -> None:
        """Let it answer nothing, until `resume`."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it answer again."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGCONT)

    def register(self, subject: str, schema: str, kind: str = "AVRO", **more: Any) -> int:
        """Register a schema, and return its id."""
        answer = self._asked(f"subjects/{subject}/versions", {"schema": schema, "schemaType": kind, **more})
        return int(answer["id"])

    def _asked(self, path: str, data: object = None) -> Any:
        body = None if data is None else json.dumps(data).encode()
        request = urllib.request.Request(f"{self.url}/{path}", body, {"Content-Type": _JSON})
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.loads(response.read())
