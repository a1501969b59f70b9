"""Where reading goes on: committed offsets, and what proves that they are right."""
