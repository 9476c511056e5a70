"""Trained modules that guess ahead, and their files; they know nothing of decoding."""
