"""The console as a service: its name, its port and its instruments. Its pages and its store are `streams/console/`."""

NAME = "console"
PACKAGES = ("jinja2", "starlette", "uvicorn")
"""The packages of the extra that the pages need."""
PORT = 1_100
"""Added to `telemetry.port` and the slot."""
