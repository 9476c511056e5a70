"""Guess what comes next: one protocol, one room per method."""
