"""Train draft heads on a frozen model: prompts, self-written replies, losses and the loop."""
