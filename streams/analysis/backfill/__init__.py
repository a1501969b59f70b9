"""Export of past windows to files for other programs."""
