"""The service `evaluate`: interactions in, evaluations out."""
