"""Run trained heads on held-out replies: how often they are right, and the tree that follows from it."""
