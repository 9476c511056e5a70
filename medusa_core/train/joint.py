"""The joint loss of Medusa-2: heads and LoRA adapters learn together, and the model's own output is held in place.

L = L_own + lambda0 * ramp(progress) * sum over k of head_weight^k L_k (Medusa, sections 2.2.2 and 2.3.2). With
self-written replies L_own is KL(original || adapted): the original is the same weights with the adapters switched
off, run in the same step. Shapes: K heads, B conversations, M reply tokens, H hidden, V vocabulary.
Knows nothing of files or of how the heads came about.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from medusa_core.config import Medusa2Config, Ramp, TrainConfig
from medusa_core.errors import ModelUnsupported
from medusa_core.heads.adapters import with_adapters
from medusa_core.heads.medusa import MedusaHeads
from medusa_core.train.loop import Objective
from medusa_core.train.losses import hard_loss, head_weights, product_dtype, soft_loss, teacher_probabilities
from medusa_core.train.shards import WrittenReply

_GROUP_TOKENS = 1024  # of one pass: replies of like length, so that little is padded and a cache holds a layer
_BLOCK_LOGITS = 2**25  # of the whole vocabulary at once: 128 MiB

RAMPS: Mapping[Ramp, Callable[[float], float]] = {
    "constant": lambda progress: 1.0,
    "linear": lambda progress: progress,
    "sine": lambda progress: math.sin(math.pi / 2 * progress),
}
"""How the heads' share of the loss grows with the share of the steps that is done."""


def add_adapters(model: Any, config: Medusa2Config, name: str, seed: int) -> Any:
    """A peft model around this transformers model, which gets LoRA layers and stays frozen itself.

    Raises ModelUnsupported where the model has no such layers, or its output head adds a bias.
    """
    output = model.get_output_embeddings()
    if getattr(output, "bias", None) is not None:
        raise ModelUnsupported(f"The output head of {name} adds a bias, which joint training (--method) does not know.")
    from transformers.pytorch_utils import Conv1D  # GPT-2's linear layers, stored the other way round

    found = {
        path.rpartition(".")[2]
        for path, module in model.named_modules()
        if type(module) in (nn.Linear, Conv1D) and module is not output
    }
    if missing := sorted(set(config.targets) - found):
        raise ModelUnsupported(
            f"{name} has no linear layers called {', '.join(missing)} for adapters; it has {', '.join(sorted(found))}. "
            "Name some of those (--lora-targets)."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # B starts at zero; A is drawn
        return with_adapters(
            model, {"r": config.rank, "lora_alpha": config.alpha, "target_modules": list(config.targets)}
        )


class JointObjective(Objective):
    """The loss of a batch of replies, whose numbers are the items. Term 0 is the model's own, term k that of head k."""

    def __init__(
        self,
        adapted: Any,
        heads: MedusaHeads,
        replies: Sequence[WrittenReply],
        config: TrainConfig,
        joint: Medusa2Config,
    ) -> None:
        """`adapted` is a peft model. Only its adapters and the heads are trained."""
        super().__init__()
        self.heads = heads
        parameters = dict(adapted.named_parameters())
        self.adapters = nn.ParameterList(parameters[n] for n in sorted(parameters) if parameters[n].requires_grad)
        # Not a module of this one: what belongs to it is moved, saved and handed to other processes.
        self._adapted = (adapted,)
        self._base = {f"the model's {n}": p for n, p in parameters.items() if not p.requires_grad}
        self._replies, self._config, self._joint = replies, config, joint
        self._output: torch.Tensor = adapted.get_base_model().get_output_embeddings().weight.detach()
        self._rows, self._index = self._output, torch.arange(heads.shape.vocab_size)
        if heads.token_map is not None:
            self._rows = self._output[heads.token_map]
            self._index = torch.full((heads.shape.vocab_size,), -1)  # -1: outside the draft vocabulary
            self._index[heads.token_map.cpu()] = torch.arange(len(heads.token_map))
        self._share = 0.0
        self.at(0.0)

    def at(self, progress: float) -> None:
        """See `Objective`."""
        self._share = self._joint.head_share * RAMPS[self._joint.ramp](progress)

    def parameter_groups(self) -> list[tuple[Sequence[nn.Parameter], float]]:
        """The adapters at the learning rate, the heads at a multiple of it."""
        heads = [parameter for parameter in self.heads.parameters() if parameter.requires_grad]
        return [(list(self.adapters), 1.0), (heads, self._joint.head_rate)]

    def frozen(self) -> dict[str, torch.Tensor]:
        """Every weight of the model, its embedding and output head among them."""
        return {**super().frozen(), **self._base}

    def term(self, number: int) -> str:
        """See `Objective`."""
        return f"head {number}" if number else "the model itself"

    def counts(self, items: torch.Tensor) -> torch.Tensor:
        """Reply tokens, then positions that have a label, by head (1 + K,)."""
        tokens, left = self._tokens(items.tolist())
        return torch.cat([torch.tensor([len(tokens)]), self._targets(tokens, left)[1].sum(-1)])

    def forward(self, items: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """See `Objective`."""
        numbers = sorted(items.tolist(), key=self._length)
        original, hidden = self._both(numbers)
        tokens, left = self._tokens(numbers)
        own = self._own(original, hidden, tokens.to(hidden.device)) / counts[0].to(hidden.device)
        targets, valid = self._targets(tokens, left)
        weights = self._share * head_weights(valid.to(hidden.device), counts[1:], self._config.head_weight)
        return own + self._ahead(original, hidden, tokens, targets, weights)

    @torch.no_grad()
    def states(self, replies: Sequence[WrittenReply]) -> Iterator[torch.Tensor]:
        """The adapted model's hidden states (n, H) of each reply."""
        for reply in replies:
            yield self._rows_of_replies([reply])

    def _own(self, original: torch.Tensor, hidden: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """The sum over (M, H) states of KL(original || adapted), or of the cross entropy of the tokens (M,)."""
        block = max(_BLOCK_LOGITS // self._output.shape[0], 1)
        total = hidden.new_zeros((), dtype=torch.float32)
        for start in range(0, len(hidden), block):
            rows = slice(start, start + block)
            states = hidden[None, rows]
            ones = states.new_ones(states.shape[:2], dtype=torch.float32)
            if self._joint.own_loss == "tokens":
                total = total + hard_loss(states, self._output, tokens[None, rows], ones)
                continue
            meant = teacher_probabilities(original[rows], self._output)
            numbers = torch.arange(len(meant), device=meant.device)[None]
            # Cross entropy less the original's entropy; only the former has a gradient.
            total = total + soft_loss(states, self._output, meant, numbers, ones) - torch.special.entr(meant).sum()
        return total

    def _ahead(
        self,
        original: torch.Tensor,
        hidden: torch.Tensor,
        tokens: torch.Tensor,
        targets: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        """The heads' weighted loss: labels of [k, m] stand at row `targets[k, m]` of the batch."""
        device = hidden.device
        states = self.heads.before_output(hidden.float(), tokens.to(device))
        self._rows = self._rows.to(product_dtype(states))
        output = self.heads.output(self._rows)
        if not self._config.soft_labels:
            return hard_loss(states, output, self._index[tokens[targets]].clamp_min(0).to(device), weights)
        return soft_loss(states, output, teacher_probabilities(original, self._rows), targets.to(device), weights)

    def _length(self, number: int) -> int:
        reply = self._replies[number]
        return len(reply.prompt_ids) + len(reply.token_ids)

    def _tokens(self, numbers: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """The replies' tokens end to end (M,), and how many follow each in its reply (M,)."""
        replies = [self._replies[number].token_ids for number in numbers]
        left = [torch.arange(len(tokens) - 1, -1, -1) for tokens in replies]
        return torch.tensor([token for tokens in replies for token in tokens]), torch.cat(left)

    def _targets(self, tokens: torch.Tensor, left: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The row in which each head's label stands, and whether there is one: (K, M) each."""
        steps = torch.arange(1, self.heads.shape.num_heads + 1)[:, None]
        targets = (torch.arange(len(tokens)) + steps).clamp_max(len(tokens) - 1)
        valid = left >= steps
        if not self._config.soft_labels:
            valid &= self._index[tokens[targets]] >= 0
        return targets, valid

    def _both(self, numbers: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
        """The states (M, H) that reply tokens were chosen from: of the original, without gradients, and adapted."""
        (adapted,) = self._adapted
        groups = list(_groups([self._replies[number] for number in numbers]))
        original = []
        if self._joint.own_loss == "kl" or self._config.soft_labels:
            with torch.no_grad(), adapted.disable_adapter():
                original = [self._rows_of_replies(group) for group in groups]
        hidden = torch.cat([self._rows_of_replies(group) for group in groups])
        return torch.cat(original) if original else hidden.detach(), hidden

    def _rows_of_replies(self, replies: Sequence[WrittenReply]) -> torch.Tensor:
        """One pass over whole conversations, padded at their ends, where no earlier token sees it -> (M, H)."""
        from peft.helpers import disable_input_dtype_casting

        (adapted,) = self._adapted
        rows = [torch.tensor([*reply.prompt_ids, *reply.token_ids[:-1]]) for reply in replies]
        ids = nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self._output.device)
        # peft would turn every input into 32 bit, for autocast to turn it back.
        autocast = torch.is_autocast_enabled(ids.device.type)
        with disable_input_dtype_casting(adapted) if autocast else nullcontext():
            hidden = adapted.get_base_model().get_decoder()(input_ids=ids, use_cache=False).last_hidden_state
        return torch.cat(
            [
                row[len(reply.prompt_ids) - 1 : len(reply.prompt_ids) - 1 + len(reply.token_ids)]
                for row, reply in zip(hidden, replies, strict=True)
            ]
        )


def _groups(replies: Sequence[WrittenReply]) -> Iterator[list[WrittenReply]]:
    """Neighbours of a list sorted by length, as many as `_GROUP_TOKENS` allows with their padding."""
    group: list[WrittenReply] = []
    for reply in replies:
        if group and (len(group) + 1) * (len(reply.prompt_ids) + len(reply.token_ids)) > _GROUP_TOKENS:
            yield group
            group = []
        group.append(reply)
    yield group
