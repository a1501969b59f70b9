"""How it flows: agents without I/O, the runtimes that drive them, and the command line."""
