"""Which document, version, tool or other value carries the excess of bad answers."""
