"""The checks of `ragweir doctor`: each returns what it found, or raises CheckFailed or CheckWarning."""
