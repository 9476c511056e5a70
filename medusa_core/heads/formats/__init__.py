"""Heads as others publish them: read strictly, loaded onto a model, and written. Knows nothing of decoding."""
