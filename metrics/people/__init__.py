"""Agreement of a metric with people: the draw of answers to be labelled, and estimates from the labels."""
