"""Text that is shown: control characters, secrets, and output on a terminal."""
