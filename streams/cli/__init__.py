"""The command line: one module per command or group of commands."""

from ragweir.streams.cli.app import app, main

__all__ = ["app", "main"]
