"""What one conversation knows between steps: the tokens in the cache, the pending root, its hidden state.

The one mutable object of decoding. Between replies it stays, so that the next turn re-reads only what is new.
Knows nothing of text, rules or drafters.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from medusa_core.backbone.base import Cache
from medusa_core.records import Accepted, CandidateTree, Scores


class State:
    """`context` are the tokens whose rows the cache holds; `root` is the model's next token, not yet in it."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.context: list[int] = []
        self.reply: list[int] = []
        self.root = 0
        self.hidden = torch.empty(0)  # (H,): the state the root was chosen from; heads read it

    def begin(self, prompt: Sequence[int]) -> int:
        """Start a reply to `prompt`; returns how many of its tokens the cache holds already.

        The last prompt token is always read again: its hidden state is needed.
        """
        shared = 0
        limit = min(len(prompt) - 1, len(self.context))
        while shared < limit and prompt[shared] == self.context[shared]:
            shared += 1
        self.cache.crop(shared)
        shared = min(shared, self.cache.length)  # a cache that cannot forget some rows forgets all
        del self.context[shared:]
        self.reply = []
        return shared

    def read(self, token_ids: Sequence[int]) -> None:
        """Note prompt tokens whose rows have been cached."""
        self.context += token_ids

    def set_root(self, token_id: int, hidden: torch.Tensor) -> None:
        """The model's choice after the prompt, and the state (H,) it was chosen from."""
        self.root, self.hidden = token_id, hidden

    def commit(self, candidates: CandidateTree, scores: Scores, accepted: Accepted) -> None:
        """Advance by the accepted path: keep its rows, take over its end."""
        self.cache.keep(self.cache.length - len(candidates.tree), accepted.path)
        tokens = [candidates.token_ids[node] for node in accepted.path]
        self.context += tokens
        self.reply += tokens
        self.root, self.hidden = accepted.next_token, scores.hidden[accepted.path[-1]]
