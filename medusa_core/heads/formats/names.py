"""How each published format names its tensors, and the table of what is missing, unexpected or misshapen in a file.

Numbers of heads and blocks follow from the names alone: configurations are known to lie about them.
Shapes: K heads, L blocks, H hidden size, V' rows of an output head. Knows nothing of files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from medusa_core.errors import CheckpointError

Sizes = tuple[int, ...]

TOKEN_MAP = "token_map"
PREFIXES = ("medusa_head.", "medusa_heads.")
"""What stands before the names where heads lie among a whole model's weights."""

_NUMBER = r"(0|[1-9]\d{0,3})"
_MOST_LINES = 12  # of the table; a file of another kind differs in every tensor


@dataclass(frozen=True, slots=True)
class Naming:
    """Templates of names: `{k}` is a head and `{l}` a block, both from 0; an output head's `{l}` is L."""

    name: str
    block: str
    output: str
    needs_bias: bool

    def weight(self, head: int, layer: int) -> str:
        """Of a block: W1 (H, H)."""
        return self.block.format(k=head, l=layer, part="weight")

    def bias(self, head: int, layer: int) -> str:
        """Of a block: b (H,)."""
        return self.block.format(k=head, l=layer, part="bias")

    def head_output(self, head: int, layers: int) -> str:
        """Of a head of L blocks: W2 (V', H)."""
        return self.output.format(k=head, l=layers)

    def block_of(self, name: str) -> tuple[int, int, str] | None:
        """Head, block, and "weight" or "bias"; None for other names."""
        found = _pattern(self.block).fullmatch(name)
        return None if found is None else (int(found["k"]), int(found["l"]), found["part"])

    def output_of(self, name: str) -> int | None:
        """The head whose W2 this is; None for other names."""
        found = _pattern(self.output).fullmatch(name)
        return None if found is None else int(found["k"])

    def knows(self, name: str) -> bool:
        """Whether a tensor of heads can be called so."""
        return self.block_of(name) is not None or self.output_of(name) is not None


PUBLISHED = Naming("Medusa", "{k}.{l}.linear.{part}", "{k}.{l}.weight", needs_bias=True)
VLLM = Naming("vLLM", "blocks.{k}.layers.{l}.{part}", "lm_heads.{k}.weight", needs_bias=False)
TENSORRT = Naming("TensorRT-LLM", "{k}.medusa_layers.{l}.linear.{part}", "{k}.lm_head.weight", needs_bias=True)
NAMINGS = (PUBLISHED, VLLM, TENSORRT)


def _pattern(template: str) -> re.Pattern[str]:
    escaped = re.escape(template)
    for field, pattern in (("k", _NUMBER), ("l", _NUMBER), ("part", "(weight|bias)")):
        escaped = escaped.replace(re.escape(f"{{{field}}}"), pattern.replace("(", f"(?P<{field}>", 1))
    return re.compile(escaped)


@dataclass(frozen=True, slots=True)
class Layout:
    """Which tensors a file holds, counted from their names."""

    naming: Naming
    num_heads: int
    num_layers: int
    biased: bool
    outputs: int  # 0: the model's output head; 1: one for all heads; K: one each


def naming_of(names: Iterable[str]) -> Naming | None:
    """Whose names these are; None where they name no heads."""
    names = list(names)
    counts = {naming.name: sum(naming.knows(name) for name in names) for naming in NAMINGS}
    best = max(NAMINGS, key=lambda naming: counts[naming.name])
    return best if counts[best.name] else None


def layout_of(naming: Naming, names: Iterable[str], *, one_output: bool) -> Layout:
    """Count heads and blocks. `one_output`: the configuration says that all heads share the file's output head."""
    blocks = [found for name in names if (found := naming.block_of(name))]
    outputs = {head for name in names if (head := naming.output_of(name)) is not None}
    num_heads = 1 + max((*(head for head, _, _ in blocks), *outputs))
    shared = bool(outputs) and (one_output or (outputs == {0} and naming is VLLM))
    return Layout(
        naming=naming,
        num_heads=num_heads,
        num_layers=1 + max((layer for _, layer, _ in blocks), default=-1),
        biased=naming.needs_bias or any(part == "bias" for _, _, part in blocks),
        outputs=min(len(outputs), 1) if shared else num_heads * bool(outputs),
    )


def expected(layout: Layout, hidden: int, rows: int) -> dict[str, Sizes]:
    """Every tensor there must be, and its shape."""
    naming = layout.naming
    shapes: dict[str, Sizes] = {}
    for head in range(layout.num_heads):
        for layer in range(layout.num_layers):
            shapes[naming.weight(head, layer)] = (hidden, hidden)
            if layout.biased:
                shapes[naming.bias(head, layer)] = (hidden,)
    for head in range(layout.outputs):
        shapes[naming.head_output(head, layout.num_layers)] = (rows, hidden)
    return shapes


def compare(where: str, layout: Layout, found: Mapping[str, Sizes]) -> None:
    """Raises CheckpointError with the table of every difference; the first head sets the sizes."""
    naming = layout.naming
    first = naming.head_output(0, layout.num_layers)
    block = found.get(naming.weight(0, 0)) or found.get(first) or (0,)
    wanted = expected(layout, hidden=block[-1], rows=(found.get(first) or (0,))[0])
    lines = [("missing", name, str(shape)) for name, shape in wanted.items() if name not in found]
    lines += [
        ("unexpected", name, str(shape)) for name, shape in found.items() if name not in wanted and name != TOKEN_MAP
    ]
    lines += [
        ("misshapen", name, f"{found[name]} instead of {shape}")
        for name, shape in wanted.items()
        if name in found and found[name] != shape
    ]
    if not lines:
        return
    rows = [f"  {what:<10}  {name}  {shape}" for what, name, shape in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        rows.append(f"  and {len(lines) - _MOST_LINES} more")
    raise CheckpointError(
        f"{where} does not hold {layout.num_heads} whole heads of {layout.num_layers} blocks by the names of "
        f"{naming.name}. Get the heads again.\n" + "\n".join(rows)
    )
