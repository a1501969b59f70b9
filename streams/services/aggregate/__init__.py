"""The service `aggregate`: evaluations in, windows of event time out."""
