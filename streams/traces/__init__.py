"""OpenTelemetry traces: their wire form, the dialects of instrumentations, and the interactions that they hold."""
