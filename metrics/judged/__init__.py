"""What a judge is asked: suites as conversations without I/O."""
