"""The service `key`: it orders spans by trace, and writes clock marks."""
