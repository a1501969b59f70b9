"""The metrics that need no judge, one file per group."""
