"""What a service shows of itself: telemetry and health, over HTTP."""
