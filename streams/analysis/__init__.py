"""Answers to questions about evaluations: scores of files, explanations, comparisons, SLOs, replays, checks."""
