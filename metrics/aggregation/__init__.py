"""From scores to windows, estimates and comparisons."""
