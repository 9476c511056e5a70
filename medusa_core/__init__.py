"""Decode with Medusa heads, and show how: propose a tree, verify it in one pass, keep what is right.

Importing this package loads no PyTorch; modules that need it are imported where they are used. Knows nothing of Qt.
"""

from medusa_core.config import (
    DecodingConfig,
    DistillConfig,
    GreedyAcceptance,
    ModelConfig,
    SamplingAcceptance,
    TrainConfig,
    TypicalAcceptance,
)
from medusa_core.errors import MedusaError
from medusa_core.events import Event, Finished, Node, Prefilled, Progress, Step, read_log, write_log
from medusa_core.metrics import ReplyMetrics
from medusa_core.model_info import ChatMessage, ModelInfo
from medusa_core.opening import open_chat
from medusa_core.tree import RankedTree, Tree

__all__ = [
    "ChatMessage",
    "DecodingConfig",
    "DistillConfig",
    "Event",
    "Finished",
    "GreedyAcceptance",
    "MedusaError",
    "ModelConfig",
    "ModelInfo",
    "Node",
    "Prefilled",
    "Progress",
    "RankedTree",
    "ReplyMetrics",
    "SamplingAcceptance",
    "Step",
    "TrainConfig",
    "Tree",
    "TypicalAcceptance",
    "open_chat",
    "read_log",
    "write_log",
]
