"""Processes: the supervisor of workers, their time limits, their logs."""
