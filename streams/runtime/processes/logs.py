"""Structured logs on standard error: readable on a terminal, else JSON lines. They have no content of events."""

import logging
import sys

import stamina.instrumentation
import structlog

from ragweir.streams.runtime.text.terminal import printable


def _without_controls(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Remove control characters from texts, except the line ends of a traceback."""
    return {
        name: "\n".join(printable(line, None) for line in value.split("\n")) if isinstance(value, str) else value
        for name, value in event.items()
    }


def configure(*, debug: bool = False) -> None:
    """Configure the logging of this process."""
    level = logging.DEBUG if debug else logging.INFO
    on_terminal = sys.stderr.isatty()
    render: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if on_terminal else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=not on_terminal),
            structlog.processors.format_exc_info,
            _without_controls,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # One write per line, as workers share the stream.
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    # The caller of a retry logs it once; stamina would log every attempt.
    stamina.instrumentation.set_on_retry_hooks([])
