"""One causal language model, loaded and ready to score rows of a candidate tree."""
