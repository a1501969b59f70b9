"""The application of `faust -A ragweir.streams.faust_app worker`: evaluate on Faust, at least once.

It reads the settings from ragweir.toml and RAGWEIR_... variables, and the slot from RAGWEIR_SLOT. The application is
made when `app` is first read, so that importing this module has no effects. See
`ragweir.streams.services.faust.runtime`.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(name)
    return _app()


@cache
def _app() -> Any:
    from ragweir.errors import ConfigurationError  # noqa: PLC0415 (as the docstring says)
    from ragweir.streams.runtime.processes import logs  # noqa: PLC0415
    from ragweir.streams.settings import load  # noqa: PLC0415

    logs.configure()
    try:
        from ragweir.streams.services.faust.runtime import EvaluateApp  # noqa: PLC0415

        return EvaluateApp(load(), int(os.environ.get("RAGWEIR_SLOT", "0")))
    except ConfigurationError as error:
        sys.exit(f"ragweir: {error}")
