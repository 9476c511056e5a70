"""What people are told about a loaded model, as plain data. Knows nothing of tensors or of how it was loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypedDict


class ChatMessage(TypedDict):
    """One message of a conversation, in the form chat templates take."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded chat model and its heads."""

    name: str  # for people: "SmolLM2-135M-Instruct"
    dtype: str  # "fp32", "bf16", "fp16", "nf4"
    device: str  # "cpu", "cuda:0 (NVIDIA ...)"
    parameters: int
    context_size: int  # tokens
    num_heads: int  # 0: no heads loaded, decoding is plain
    heads_name: str  # "default", "paper", a folder's name, or "none"
    heads_problem: str = ""  # one sentence where heads were asked for and could not be used
    adapted: bool = False  # the heads brought adapters that changed the model: it is no longer the original
