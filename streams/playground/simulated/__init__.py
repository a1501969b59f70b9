"""The simulated judge: an OpenAI-compatible endpoint for demos and tests, whose scores come from word overlap."""
