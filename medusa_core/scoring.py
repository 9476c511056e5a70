"""What the model itself thinks of a few tokens after a given beginning, from one plain pass that shares no cache.

Explains where two replies part: two tokens whose logits differ by less than rounding are a tie that the number of rows
in a pass decides. Knows nothing of replies, rules or drafters.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from medusa_core.backbone.base import Backbone
from medusa_core.model_info import Weight

_CHUNK = 256  # tokens a pass


@torch.inference_mode()
def weigh(backbone: Backbone, context: Sequence[int], token_ids: Sequence[int]) -> tuple[Weight, ...]:
    """Logit and probability (temperature 1) of each of `token_ids` as the token after `context`, T tokens."""
    cache = backbone.new_cache()
    device = backbone.device
    for start in range(0, len(context), _CHUNK):
        part = torch.tensor(context[start : start + _CHUNK], device=device)
        positions = torch.arange(start, start + len(part), device=device)
        hidden = backbone.forward(part, positions, None, cache)
    logits = backbone.logits(hidden[-1:])[0].float()
    probabilities = logits.softmax(-1)
    return tuple(Weight(token, float(logits[token]), float(probabilities[token])) for token in token_ids)
