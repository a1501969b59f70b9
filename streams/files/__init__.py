"""Sources of events in files, whatever their format."""
