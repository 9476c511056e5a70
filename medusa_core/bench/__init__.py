"""Measure decoding speed: several systems answer the same prompts in turn. Knows nothing of command lines."""
