"""The environments of the instrumented applications: each has the locked packages of one framework."""

from __future__ import annotations

import subprocess
import sys
import venv
from hashlib import sha256
from pathlib import Path

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local.cache_folder import cached

FOLDER = Path(__file__).parent / "applications"
_INSTALL_SECONDS = 900


def python(name: str) -> Path:
    """Return the Python of an application's environment; the first call on a machine installs it.

    Args:
        name: the name of a file of requirements in `applications`, without its ending.

    Raises:
        LocalServerError: if the packages cannot be installed; the message has pip's last lines.
    """
    requirements = FOLDER / f"{name}.txt"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    lines = [
        line for line in requirements.read_text(encoding="utf-8").splitlines() if not line.lstrip().startswith("#")
    ]
    digest = sha256("\n".join(lines).encode()).hexdigest()[:8]

    def fill(scratch: Path) -> Path:
        print(f"Installing {name} with its instrumentation (once)", flush=True)
        folder = scratch / name
        venv.create(folder, with_pip=True)
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run(
            [*command, "--require-hashes", "--requirement", str(requirements)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_INSTALL_SECONDS,
        )
        if done.returncode != 0:
            raise LocalServerError(f"{name} cannot be installed:\n" + "\n".join(done.stderr.splitlines()[-10:]))
        return folder

    return cached(f"otel-{name}-{version}-{digest}", fill) / "bin" / "python"
