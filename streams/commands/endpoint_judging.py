"""Judging by the endpoint of the settings, for commands that judge files without a broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from ragweir.errors import PermanentError
from ragweir.streams.commands.stopping import Stop
from ragweir.streams.services.judge.from_settings import judge_config
from ragweir.streams.services.judge.judged_files import JudgedFiles
from ragweir.streams.services.judge.pool import LiveJudgePool
from ragweir.streams.services.judge.probe import error_message, probe
from ragweir.streams.services.judge.protocol import JudgeError, RateLimited
from ragweir.streams.settings import Settings


@contextmanager
def judging_of(effective: Settings, stop: Stop) -> Iterator[JudgedFiles]:
    """Probe the judge's endpoint, and judge for the length of a `with` block.

    Raises:
        PermanentError: if the endpoint cannot be used.
        ConfigurationError: if there is none, or its settings are wrong.
    """
    config = judge_config(effective, 1)
    spent = 0
    if not config.judge.cached_only:
        try:
            spent = probe(config.judge).cost
        except RateLimited:
            pass  # The calls of the run wait until the limit permits them.
        except JudgeError as error:
            raise PermanentError(error_message(config.judge, error)) from None
    with closing(LiveJudgePool(config.judge)) as pool:
        yield JudgedFiles(config, pool, lambda: stop.asked, spent)
