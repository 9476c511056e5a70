"""What followed what in the text that a model wrote itself: a correction of the heads' guesses by the token before.

A head guesses the token k places ahead without knowing the tokens between; but below a node of a tree the token before
is known. The table holds, for a token x and the tokens y that came right after it, how much likelier y is than usual,
b(x, y) = log(1 + c(x, y) / (m p(y))), with c the pairs counted, p the share of y in the text and m a prior; for a pair
that never came it is 0. Head k's distribution below x becomes p_k(y) exp(s_k b(x, y)) / Z, s_k fitted on held-out
replies; Z is exact, since only the few y after x change. It costs no pass and no training.
Shapes: V vocabulary, V' draft vocabulary, P pairs, K heads. Knows nothing of trees or of decoding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from medusa_core.errors import CheckpointError
from medusa_core.heads.medusa import MedusaHeads

FILE = "pairs.safetensors"
_PRIOR = 10.0  # m: so many tokens of the usual kind are thought to have followed every token already
_STRENGTHS = tuple(step / 10 for step in range(11))  # that are tried
_FIT_POSITIONS = 1024

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PairTable:
    """Pairs of tokens by their first one: those of token x are `starts[x]` to `starts[x + 1]`."""

    starts: Ints  # (V + 1,)
    followers: Ints  # (P,): indices into the draft vocabulary, ascending within a first token
    boosts: Floats  # (P,): b(x, y)
    strengths: tuple[float, ...]  # (K,): s_k

    def after(self, token_id: int) -> slice:
        """Where the pairs of a first token lie."""
        return slice(int(self.starts[token_id]), int(self.starts[token_id + 1]))

    def save(self, path: Path) -> None:
        """Write the table; boosts are kept in 16 bit."""
        tensors: dict[str, NDArray[Any]] = {
            "starts": self.starts.astype(np.int32),
            "followers": self.followers.astype(np.int32),
            "boosts": self.boosts.astype(np.float16),
            "strengths": np.array(self.strengths, np.float32),
        }
        save_file(tensors, path, metadata={"format": "medusa-pairs"})


def load_pairs(path: Path, heads: MedusaHeads) -> PairTable | None:
    """Read `save`'s form for these heads, None where there is no file. Raises CheckpointError where it is wrong."""
    try:
        tensors = load_file(path)
    except FileNotFoundError:
        return None
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path} is damaged: {error}. Get or train the heads again.") from error
    if problem := _problem(tensors, heads):
        raise CheckpointError(f"{path} is wrong: {problem}. Get or train the heads again.")
    return PairTable(
        starts=tensors["starts"].astype(np.int64),
        followers=tensors["followers"].astype(np.int64),
        boosts=tensors["boosts"].astype(np.float32),
        strengths=tuple(float(strength) for strength in tensors["strengths"]),
    )


def _problem(tensors: dict[str, NDArray[Any]], heads: MedusaHeads) -> str:
    names = {"starts", "followers", "boosts", "strengths"}
    if names != tensors.keys():
        return f"it holds {', '.join(sorted(tensors)) or 'nothing'} instead of {', '.join(sorted(names))}"
    shape = heads.shape
    starts, followers = tensors["starts"], tensors["followers"]
    sizes = {
        "starts": (shape.vocab_size + 1,),
        "followers": followers.shape[:1],
        "boosts": followers.shape[:1],
        "strengths": (shape.num_heads,),
    }
    for name, size in sizes.items():
        if tensors[name].shape != size:
            return f"{name} has shape {tensors[name].shape} instead of {size}"
    if starts[0] != 0 or starts[-1] != len(followers) or (np.diff(starts.astype(np.int64)) < 0).any():
        return "starts does not divide the pairs"
    if len(followers) and not 0 <= followers.min() <= followers.max() < shape.draft_vocab_size:
        return f"followers lie outside the draft vocabulary of {shape.draft_vocab_size}"
    if not all(np.isfinite(tensors[name]).all() and (tensors[name] >= 0).all() for name in ("boosts", "strengths")):
        return "boosts and strengths must be finite and not negative"
    return ""


def count_pairs(
    texts: Iterable[torch.Tensor], vocab_size: int, token_map: torch.Tensor | None, num_heads: int
) -> PairTable:
    """The table of texts of token ids (n,) each; pairs whose second token cannot be guessed are left out."""
    pieces = [text.numpy() for text in texts]
    index = np.arange(vocab_size)
    if token_map is not None:
        index = np.full(vocab_size, -1)
        index[token_map.cpu().numpy()] = np.arange(len(token_map))
    draft_size = int(index.max()) + 1
    tokens = np.concatenate([*pieces, np.empty(0, np.int64)])
    known = index[tokens]
    usual = np.bincount(known[known >= 0], minlength=draft_size) + 0.5
    usual /= len(tokens) + 0.5 * vocab_size
    first = np.concatenate([*(piece[:-1] for piece in pieces), np.empty(0, np.int64)])
    second = index[np.concatenate([*(piece[1:] for piece in pieces), np.empty(0, np.int64)])]
    keys, counts = np.unique((first * draft_size + second)[second >= 0], return_counts=True)
    followers = keys % draft_size
    starts = np.searchsorted(keys // draft_size, np.arange(vocab_size + 1))
    boosts = np.log1p(counts / (_PRIOR * usual[followers])).astype(np.float32)
    return PairTable(starts.astype(np.int64), followers.astype(np.int64), boosts, (0.0,) * num_heads)


@torch.inference_mode()
def fit_strengths(
    table: PairTable,
    heads: MedusaHeads,
    temperatures: Sequence[float],
    replies: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> tuple[float, ...]:
    """For each head the strength that gives the tokens that came most likelihood, on states (n, H) and tokens (n,)."""
    loss = np.zeros((heads.shape.num_heads, len(_STRENGTHS)))
    index = torch.arange(heads.shape.vocab_size)
    if heads.token_map is not None:
        index = torch.full_like(index, -1)
        index[heads.token_map.cpu()] = torch.arange(heads.shape.draft_vocab_size)
    scale = 1 / torch.tensor(temperatures, device=heads.device)[:, None, None]
    left = _FIT_POSITIONS
    for hidden, tokens in replies:
        states, roots = hidden[::7], tokens[::7]  # neighbours say much the same
        logits = heads(states.to(heads.device), roots.to(heads.device)).float() * scale
        probabilities = logits.softmax(-1).cpu().numpy()
        for row in range(len(states)):
            position = 7 * row
            for head in range(min(heads.shape.num_heads, len(tokens) - 1 - position)):
                before, came = int(tokens[position + head]), int(index[tokens[position + head + 1]])
                if came >= 0:
                    loss[head] -= _log_likelihoods(table, probabilities[head, row], before, came)
        left -= len(states)
        if left <= 0:
            break
    return tuple(_STRENGTHS[int(best)] for best in loss.argmin(1))


def _log_likelihoods(table: PairTable, probabilities: Floats, before: int, came: int) -> Floats:
    """Of the draft index `came` after the token `before`, for every strength that is tried; probabilities (V',)."""
    pairs = table.after(before)
    followers, boosts = table.followers[pairs], table.boosts[pairs]
    gains = np.exp(np.array(_STRENGTHS)[:, None] * boosts)  # (strengths, pairs of this token)
    totals = 1 + ((gains - 1) * probabilities[followers]).sum(1)
    place = int(np.searchsorted(followers, came))
    hit = place < len(followers) and followers[place] == came
    gain = gains[:, place] if hit else np.ones(len(_STRENGTHS))
    likelihoods: Floats = np.log(np.maximum(probabilities[came] * gain, 1e-12)) - np.log(totals)
    return likelihoods
