"""The command line of a child process that runs Python."""

from __future__ import annotations

import sys


def python_command(*arguments: str) -> list[str]:
    """Return the command line that runs this interpreter with some arguments.

    >>> python_command("-m", "json.tool")[1:]
    ['-P', '-m', 'json.tool']
    """
    # -P: without it the working folder comes first in the search path, so that a file that anybody puts there, such as
    # pickle.py in /tmp, runs in place of the module that is meant.
    return [sys.executable, "-P", *arguments]
