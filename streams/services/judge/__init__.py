"""The service `judge`: requests in, judged evaluations out."""
