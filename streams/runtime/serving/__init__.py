"""Telemetry and health of a service, over HTTP."""
