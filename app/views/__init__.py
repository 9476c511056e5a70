"""Widgets that paint batches of events and emit intents; they know nothing of threads, models or files."""
