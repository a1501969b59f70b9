"""The folder for what is fetched once: `ragweir` in the user's cache."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def cached(name: str, fill: Callable[[Path], Path]) -> Path:
    """Return a folder of the cache. Any number of processes may call this at the same time.

    Args:
        name: the name of the folder.
        fill: makes the folder inside a temporary one, and returns it; called if the folder does not exist.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ragweir"
    folder = cache / name
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # The lock prevents a second download; after the rename the folder is complete.
        with (cache / "fetch.lock").open("w") as lock, tempfile.TemporaryDirectory(dir=cache) as scratch:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.exists():
                fill(Path(scratch)).rename(folder)
    return folder
