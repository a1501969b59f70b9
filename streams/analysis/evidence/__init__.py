"""Evidence about one answer: the model that `ragweir explain` prints and the console's page of an answer shows."""
