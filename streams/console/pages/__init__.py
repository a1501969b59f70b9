"""One file per page: it asks analysis, and shows the answer."""
