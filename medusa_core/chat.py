"""A conversation with a loaded model: messages in, events with text out. The cache is kept from turn to turn.

Wraps `text.py` around `engine.py`. Knows nothing of windows, storage or command lines.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from medusa_core.acceptance.base import Rule
from medusa_core.acceptance.greedy import GreedyRule
from medusa_core.acceptance.speculative import SamplingRule
from medusa_core.acceptance.typical import TypicalRule
from medusa_core.backbone.base import Backbone, BackboneSpec
from medusa_core.backbone.cost import CostTable
from medusa_core.backbone.load import load_backbone, memory_errors
from medusa_core.config import Acceptance, DecodingConfig, Device, Dtype, SamplingAcceptance, TypicalAcceptance
from medusa_core.drafters.choice import Drafters
from medusa_core.engine import Engine
from medusa_core.errors import CheckpointError
from medusa_core.events import Event, Finished, Node, Prefilled, Progress, Step
from medusa_core.figures import measured
from medusa_core.heads.adapters import has_adapters, load_adapters, merge_adapters
from medusa_core.heads.checkpoint import HeadsCheckpoint, check_base
from medusa_core.heads.cost import brief_heads_costs
from medusa_core.heads.formats.load import open_heads
from medusa_core.heads.int8 import for_decoding
from medusa_core.heads.notes import heads_note
from medusa_core.model_info import ChatMessage, ModelInfo, Weight
from medusa_core.scoring import weigh
from medusa_core.state import State
from medusa_core.text import ChatText, Increments

_NO_MEMORY = "There was not enough memory to go on with this reply. Close other programs, or start a shorter chat."


class Chat:
    """A loaded model with its heads. One reply at a time."""

    def __init__(
        self,
        backbone: Backbone,
        text: ChatText,
        checkpoint: HeadsCheckpoint | None,
        info: ModelInfo,
        costs: CostTable | None = None,
    ) -> None:
        """`costs`: of passes on this machine, for trees sized by measurement."""
        self.backbone, self.text, self.checkpoint, self.info = backbone, text, checkpoint, info
        self.costs = costs
        self._drafters = Drafters(checkpoint, backbone.spec.vocab_size, costs, trees=not backbone.spec.no_trees)
        self._state = State(backbone.new_cache())

    def prepare(self) -> None:
        """Compile what drafting needs, so that the first reply does not wait for it."""
        spec = self.backbone.spec
        self._state.set_root(0, torch.zeros(spec.hidden_size, dtype=self.backbone.dtype, device=self.backbone.device))
        with torch.inference_mode():
            self._drafters.prepare(self._state)

    def reply(
        self,
        messages: Sequence[ChatMessage],
        config: DecodingConfig,
        stop: Callable[[], bool] = lambda: False,
        written: Sequence[int] = (),
    ) -> Iterator[Event]:
        """Answer the conversation: Progress, Prefilled, Steps with their text and spans, Finished.

        `written`: the tokens the reply already begins with. Their text comes with Prefilled; the steps write what
        follows, and their spans count on. Limits and figures are of what is new.
        Raises NoChatTemplate, or OutOfMemory where an allocation fails on the way; the chat stays usable.
        """
        ids, opened = self.text.prompt(messages)
        engine = Engine(
            self.backbone,
            self._drafters.drafter(config),
            rule_for(config.acceptance, config.seed, explain=config.explain),
            stop_ids=self.text.stop_ids,
            max_new_tokens=config.max_new_tokens,
        )
        increments = self.text.increments()
        increments.begin(written)
        try:
            with memory_errors(_NO_MEMORY):
                for event in engine.generate(self._state, [*ids, *written], stop):
                    told = replace(event, opened=opened) if isinstance(event, Prefilled) else event
                    yield self._with_text(told, increments, written)
        except Exception:
            self._forget()  # rows and tokens may disagree now; the next turn reads everything anew
            raise

    def reply_ids(self, text: str) -> list[int]:
        """A text as the tokens that a reply can begin with."""
        return self.text.reply_ids(text)

    def weigh(
        self, messages: Sequence[ChatMessage], written: Sequence[int], token_ids: Sequence[int]
    ) -> tuple[Weight, ...]:
        """What the model thinks of each of `token_ids` as the token after the reply's first tokens, `written`."""
        with memory_errors(_NO_MEMORY):
            return weigh(self.backbone, [*self.text.prompt_ids(messages), *written], token_ids)

    def _forget(self) -> None:
        self._state = State(self.backbone.new_cache())
        if self.backbone.device.type == "cuda":
            torch.cuda.empty_cache()

    def _with_text(self, event: Event, increments: Increments, written: Sequence[int]) -> Event:
        if isinstance(event, Prefilled):
            return replace(event, text=increments.text)
        if isinstance(event, Step):
            spans = tuple(increments.add(token) for token in event.token_ids)
            nodes = tuple(self._with_pieces(node) for node in event.nodes)
            return replace(event, nodes=nodes, spans=spans, text=increments.release())
        if isinstance(event, Finished):
            tail = increments.flush()
            return replace(event, token_ids=(*written, *event.token_ids), tail=tail, text=increments.text)
        return event

    def _with_pieces(self, node: Node) -> Node:
        verdict = node.verdict
        if verdict is not None and verdict.choice is not None:
            verdict = replace(verdict, choice_text=self.text.piece(verdict.choice))
        if verdict is not None and verdict.drawn is not None:
            verdict = replace(verdict, drawn_text=self.text.piece(verdict.drawn))
        return replace(node, text=self.text.piece(node.token_id), verdict=verdict)


def rule_for(acceptance: Acceptance, seed: int, *, explain: bool) -> Rule:
    """The rule that the options describe; `explain`: see DecodingConfig."""
    if isinstance(acceptance, SamplingAcceptance):
        return SamplingRule(acceptance, seed, explain=explain)
    if isinstance(acceptance, TypicalAcceptance):
        return TypicalRule(acceptance)
    return GreedyRule(explain=explain)


def open_folder(
    folder: Path,
    heads: Path | None,
    *,
    name: str,
    heads_name: str,
    dtype: Dtype,
    device: Device,
    costs: Path | None = None,
) -> Generator[Progress, None, Chat]:
    """Load a model folder and its heads. Heads that cannot be used are left out, the reason said in `Chat.info`.

    `costs`: where measured times of passes are kept; None measures nothing.
    """
    adapting = _Adapting(heads)
    backbone, text, precision = yield from load_backbone(folder, dtype, device, adapting)
    checkpoint, problem = None, adapting.problem
    undraftable = backbone.spec.no_trees
    if heads is not None and undraftable:
        problem = f"{name} decodes without heads: {undraftable}."
    if heads is not None and not problem:
        try:
            checkpoint = open_heads(heads, backbone)
            checkpoint = replace(checkpoint, heads=for_decoding(checkpoint.heads, backbone))
        except CheckpointError as error:
            problem = str(error)
    if adapting.adapted and checkpoint is None:
        # Changed for heads that cannot be used, the model is neither the original nor any faster.
        del backbone
        backbone, text, precision = yield from load_backbone(folder, dtype, device)
    info = ModelInfo(
        name=name,
        dtype=precision,
        device=_device_name(backbone),
        parameters=backbone.spec.parameters,
        context_size=backbone.spec.context_size,
        num_heads=checkpoint.heads.shape.num_heads if checkpoint else 0,
        heads_name=heads_name if checkpoint else "none",
        heads_problem=problem,
        drafting_problem=f"{name} answers without drafting, a token a step: {undraftable}." if undraftable else "",
        heads_note=heads_note(checkpoint, precision) if checkpoint else "",
        adapted=adapting.adapted and checkpoint is not None,
    )
    table = None
    if costs is not None and not undraftable:
        table = yield from brief_heads_costs(backbone, checkpoint.heads if checkpoint else None, precision, costs)
    info = replace(info, measured=measured(table, checkpoint.statistics if checkpoint else None))
    chat = Chat(backbone, text, checkpoint, info, table)
    yield Progress("Preparing to draft", 0, 1)
    chat.prepare()
    yield Progress("Preparing to draft", 1, 1)
    return chat


class _Adapting:
    """Merges the adapters that lie beside heads into the model they belong to."""

    def __init__(self, heads: Path | None) -> None:
        self._heads = heads
        self.adapted, self.problem = False, ""

    def __call__(self, model: Any, spec: BackboneSpec) -> Any:
        if self._heads is None or not has_adapters(self._heads):
            return model
        try:
            check_base(self._heads, spec)
            model = merge_adapters(load_adapters(self._heads), model)
            self.adapted = True
        except CheckpointError as error:
            self.problem = str(error)
        return model


def _device_name(backbone: Backbone) -> str:
    if backbone.device.type != "cuda":
        return "cpu"
    name = torch.cuda.get_device_name(backbone.device)
    gpus = backbone.spec.gpus
    return f"cuda ({name})" if gpus == 1 else f"cuda ({name} and {gpus - 1} more, passes not recorded)"
