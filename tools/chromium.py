"""Finds the Chromium that tests of the console drive, and installs Debian's if there is none.

Playwright's own browser is downloaded from a host that is no package registry, which many networks do not reach.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_TIMEOUT_SECONDS = 600
_HINT = "Debian, Ubuntu: apt-get install chromium"


def find() -> str | None:
    """Return the path of a Chromium; None without one."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def install() -> str:
    """Return the path of a Chromium, which is installed if there is none and this process may do so.

    Raises:
        SystemExit: if there is none and it cannot be installed.
    """
    if found := find():
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SystemExit(f"there is no Chromium, and only root can install it with apt-get ({_HINT})")
    print("Installing Chromium from Debian's packages (once; about a minute)", flush=True)
    for line in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
        subprocess.run(
            ["apt-get", "-qq", *line],
            check=True,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdout=subprocess.DEVNULL,
            timeout=_TIMEOUT_SECONDS,
        )
    if found := find():
        return found
    raise SystemExit(f"Chromium is not there after its installation ({_HINT})")


if __name__ == "__main__":
    sys.stdout.write(f"{install()}\n")
