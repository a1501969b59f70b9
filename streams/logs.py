"""Structured logs to standard error: for people on a terminal, JSON lines elsewhere. They hold no event content."""

import logging
import sys

import stamina.instrumentation
import structlog

from ragweir.streams.terminal import printable


def _shown_safely(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Texts without what a terminal obeys; the line ends of a traceback stay."""
    return {
        name: "\n".join(printable(line, None) for line in value.split("\n")) if isinstance(value, str) else value
        for name, value in event.items()
    }


def configure(*, debug: bool = False) -> None:
    """Set logging up for this process."""
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
            _shown_safely,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # One write for a line and its end: workers share the stream, and must not write into each other's lines.
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
    # Waiting is told once, by whoever waits; stamina would tell every attempt.
    stamina.instrumentation.set_on_retry_hooks([])
