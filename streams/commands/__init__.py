"""The command line: one module per command or group of commands."""

from ragweir.streams.commands.app import app, main

__all__ = ["app", "main"]
