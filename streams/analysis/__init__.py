"""What a person asks about evaluations: scores of files, explanations, comparisons, SLOs, replays, checks."""
