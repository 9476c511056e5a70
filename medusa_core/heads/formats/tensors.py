"""A set of heads as plain tensors, whatever format they came in. Knows nothing of files or of loaded models.

Shapes: K heads, L residual blocks, H hidden size, V vocabulary, V' draft vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from medusa_core.heads.checkpoint import BaseModel
from medusa_core.heads.medusa import HeadsShape, MedusaHeads

OURS = "Medusa Chat"
MEDUSA = "Medusa v0.1"
TGI = "TGI/LoRAX v2"
FULL_MODEL = "Medusa-2 full model"
VLLM = "vLLM"
TENSORRT = "TensorRT-LLM"


@dataclass(frozen=True, slots=True)
class Stated:
    """What the files say of the model the heads belong to; anything may be missing."""

    name: str = ""  # a Hub id or a folder
    family: str = ""  # transformers' model_type
    hidden_size: int | None = None
    vocab_size: int | None = None
    model_layers: int | None = None  # of the model, not of the heads
    fingerprint: str = ""  # only files that this program wrote have one

    @property
    def base(self) -> BaseModel | None:
        """The model, where the files name it as this program's own do."""
        return BaseModel(self.name, self.family, self.fingerprint) if self.fingerprint else None


@dataclass(frozen=True, slots=True)
class HeadTensors:
    """K heads of L blocks; the counts are those of the tensors, whatever a configuration says."""

    format: str  # one of the names above
    path: Path  # the folder or file they were read from
    w1: torch.Tensor  # (L, K, H, H)
    b1: torch.Tensor  # (L, K, H)
    w2: torch.Tensor | None  # (K, V', H); (1, V', H): one for all heads; None: the model's output head
    token_map: torch.Tensor | None  # (V',) int64
    stated: Stated
    kind: str = MedusaHeads.kind
    beside: tuple[str, ...] = ()  # what else belongs to them: files of this program's own format
    training: dict[str, Any] = field(default_factory=dict)

    @property
    def num_heads(self) -> int:
        """K."""
        return int(self.b1.shape[1])

    @property
    def num_layers(self) -> int:
        """L."""
        return int(self.b1.shape[0])

    @property
    def hidden_size(self) -> int:
        """H."""
        return int(self.b1.shape[2])

    @property
    def vocab_size(self) -> int | None:
        """V of the model they belong to; None where the files do not tell, as of TGI v2."""
        if self.token_map is None and self.w2 is not None:
            return int(self.w2.shape[1])
        return self.stated.vocab_size

    @property
    def dtype(self) -> torch.dtype:
        """What holds every tensor without loss."""
        dtype = torch.promote_types(self.w1.dtype, self.b1.dtype)
        return dtype if self.w2 is None else torch.promote_types(dtype, self.w2.dtype)

    def shape(self, vocab_size: int) -> HeadsShape:
        """The sizes over a model of this vocabulary."""
        return HeadsShape(
            num_heads=self.num_heads,
            num_layers=self.num_layers,
            hidden_size=self.hidden_size,
            vocab_size=vocab_size,
            draft_vocab_size=vocab_size if self.token_map is None else len(self.token_map),
            shared_output=self.w2 is None,
            one_output=self.w2 is not None and len(self.w2) == 1 < self.num_heads,
        )

    def sharing(self) -> HeadTensors:
        """The same heads, the model's output head being theirs."""
        return replace(self, w2=None)

    def described(self) -> str:
        """For people: what these are."""
        output = "the model's output head" if self.w2 is None else "an output head of their own"
        if self.w2 is not None and len(self.w2) < self.num_heads:
            output = "one output head for all"
        words = "" if self.token_map is None else f", guessing among {len(self.token_map):,} tokens"
        heads = f"{self.num_heads} head{'s' if self.num_heads > 1 else ''}"
        blocks = f"{self.num_layers} block{'s' if self.num_layers != 1 else ''}"
        return f"{self.format}: {heads} of {blocks}, hidden size {self.hidden_size}, {output}{words}"
