"""People's labels: the draw of answers, the files of labels, and the report of agreement with a metric."""
