"""The runtimes: each brings records to an agent and carries away what it emits."""
