"""Options of decoding, shared by the commands that decode: heads, drafter, tree, acceptance, seed.

Knows nothing of what a command does with the replies.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from typing import TYPE_CHECKING

from medusa_core import hub
from medusa_core.cli_options import add_model_options, defaults, field_help
from medusa_core.config import (
    DRAFTERS,
    HEADED_DRAFTERS,
    TREE_KINDS,
    Acceptance,
    DecodingConfig,
    GreedyAcceptance,
    ModelConfig,
    SamplingAcceptance,
    TypicalAcceptance,
)
from medusa_core.errors import CheckpointError

if TYPE_CHECKING:
    from medusa_core.chat import Chat

_RULES: dict[str, type[Acceptance]] = {
    "greedy": GreedyAcceptance,
    "typical": TypicalAcceptance,
    "sampling": SamplingAcceptance,
}


def add_decoding_options(parser: argparse.ArgumentParser) -> None:
    """The model's options, and those of decoding but for the length of replies."""
    decoding = defaults(DecodingConfig)
    add_model_options(parser)
    parser.add_argument(
        "--heads",
        default=defaults(ModelConfig)["heads"],
        help=f"{field_help(ModelConfig, 'heads')} (default: %(default)s)",
    )
    parser.add_argument(
        "--context",
        type=int,
        default=defaults(ModelConfig)["context"],
        help=f"{field_help(ModelConfig, 'context')} (default: %(default)s)",
    )
    for name, choices in (("drafter", DRAFTERS), ("nodes", None), ("tree", TREE_KINDS), ("seed", None)):
        parser.add_argument(
            f"--{name}",
            type=type(decoding[name]),
            choices=choices,
            default=decoding[name],
            help=f"{field_help(DecodingConfig, name)} (default: %(default)s)",
        )
    _add_acceptance(parser)


def _add_acceptance(parser: argparse.ArgumentParser) -> None:
    """--accept, and every option of the rules; one that is not given keeps the default of the rule it belongs to."""
    parser.add_argument(
        "--accept",
        choices=tuple(_RULES),
        default="greedy",
        help="greedy: the model's own output; sampling: the model's own distribution, drawn from; typical: faster, "
        "approximate, nothing is drawn (default: %(default)s)",
    )
    names = dict.fromkeys(field.name for rule in _RULES.values() for field in dataclasses.fields(rule))
    for name in names:
        owners = [word for word, rule in _RULES.items() if name in defaults(rule)]
        rule = _RULES[owners[-1]]
        default = defaults(rule)[name]
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            type=type(default),
            help=f"{' and '.join(owners)}: {field_help(rule, name)} (default: {default})",
        )


def model_config(options: argparse.Namespace, *, headed: bool) -> ModelConfig:
    """Which model, with its heads where something is going to use them."""
    heads = options.heads if headed else hub.NONE
    return ModelConfig(
        model=options.model, heads=heads, dtype=options.dtype, device=options.device, context=options.context
    )


def decoding_config(options: argparse.Namespace, max_new_tokens: int, *, explain: bool) -> DecodingConfig:
    """How replies are decoded."""
    return DecodingConfig(
        acceptance=_acceptance(options),
        drafter=options.drafter,
        nodes=options.nodes,
        tree=options.tree,
        max_new_tokens=max_new_tokens,
        seed=options.seed,
        explain=explain,
    )


def uses_heads(drafter: str) -> bool:
    """Whether a drafter of this name guesses with heads."""
    return drafter in HEADED_DRAFTERS


def require_heads(chat: Chat, options: argparse.Namespace, *, headed: bool) -> None:
    """Heads asked for on the command line must be there: going on without them would answer another question.

    Of a model that no heads can help the command itself says so.
    """
    if chat.info.drafting_problem:
        return
    if headed and options.heads != hub.NONE and chat.info.heads_problem:
        raise CheckpointError(f"{chat.info.heads_problem} (--heads none goes on without heads.)")
    if headed and options.heads != hub.NONE and options.drafter == "medusa" and chat.checkpoint is None:
        raise CheckpointError(no_heads(chat, options))


def no_heads(chat: Chat, options: argparse.Namespace) -> str:
    """What to say where heads were left to be found and there are none for the model; "" where there are some."""
    if chat.checkpoint is not None or options.heads != hub.DEFAULT or chat.info.drafting_problem:
        return ""
    made = f"python -m medusa_core train --model {shlex.quote(options.model)}"
    return f"There are no heads for {chat.info.name} on this machine yet. Make some with: {made}"


def _acceptance(options: argparse.Namespace) -> Acceptance:
    rule = _RULES[options.accept]
    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(rule)}
    return rule(**{name: value for name, value in given.items() if value is not None})
