"""Decide which nodes of a candidate tree are kept: one protocol, one room per rule."""
