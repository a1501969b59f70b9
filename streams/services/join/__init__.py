"""Assembles interactions from OpenTelemetry traces: `key` orders spans by trace, `join` makes interactions of them."""
