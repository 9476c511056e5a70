"""Every option of the library, with its default, in one place: frozen dataclasses that check themselves.

A default exists here and nowhere else. Knows nothing of command lines, settings dialogs or models.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, get_args

from medusa_core.errors import ConfigError

Dtype = Literal["auto", "fp32", "bf16", "fp16", "int8", "nf4"]
Device = Literal["auto", "cpu", "cuda"]
HeadsKind = Literal["rooted", "medusa"]
HeadsOutput = Literal["auto", "model", "one", "own"]
DrafterName = Literal["auto", "hybrid", "medusa", "lookup", "recycling", "none"]
TreeKind = Literal["ranked", "grown"]
MixedPrecision = Literal["auto", "no", "bf16"]
Method = Literal["medusa1", "medusa2"]
Ramp = Literal["constant", "linear", "sine"]
OwnLoss = Literal["kl", "tokens"]
DRAFTERS: tuple[str, ...] = get_args(DrafterName)
HEADED_DRAFTERS = ("auto", "hybrid", "medusa")  # those that use heads
TREE_KINDS: tuple[str, ...] = get_args(TreeKind)
METHODS: tuple[str, ...] = get_args(Method)
RAMPS: tuple[str, ...] = get_args(Ramp)
OWN_LOSSES: tuple[str, ...] = get_args(OwnLoss)
OWN_SYSTEMS = ("ours", "plain", "hybrid", "medusa", "lookup", "recycling")  # this library's, by who guesses ahead
OTHER_SYSTEMS = ("transformers", "transformers-lookup", "llama.cpp")
HEADS_KINDS: tuple[str, ...] = get_args(HeadsKind)
HEADS_OUTPUTS: tuple[str, ...] = get_args(HeadsOutput)
MIXED_PRECISIONS: tuple[str, ...] = get_args(MixedPrecision)
DTYPES: tuple[str, ...] = get_args(Dtype)
DEVICES: tuple[str, ...] = get_args(Device)


def _within(name: str, value: float, low: float, high: float) -> None:
    """Raise ConfigError outside the range. A whole `low` (1, not 1.0) asks for a whole number."""
    if not (math.isfinite(value) and low <= value <= high):
        raise ConfigError(f"{name} is {value}; it must lie between {low} and {high}")
    if type(low) is int and type(value) is not int:  # a bool is an int too, but none that counts anything
        raise ConfigError(f"{name} is {value}; it must be a whole number between {low} and {high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Which model, with which heads, where and how precise."""

    model: str = "default"  # "default", a model folder, a GGUF file, or ORG/NAME as `models get` fetched it
    heads: str = "default"  # "default" (those that suit the model), "paper" (the paper's), "none" or a heads folder
    dtype: Dtype = "auto"
    device: Device = "auto"
    context: int = 0  # tokens of conversation that there must be memory for; 0: what the model reads, 4096 at most

    def __post_init__(self) -> None:
        _within("context", self.context, 0, 100_000_000)
        if self.dtype not in DTYPES:
            raise ConfigError(f"dtype is {self.dtype!r}; it must be one of {', '.join(DTYPES)}")
        if self.device not in DEVICES:
            raise ConfigError(f"device is {self.device!r}; it must be one of {', '.join(DEVICES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubConfig:
    """Where models come from, and how patiently they are asked for."""

    endpoint: str = "https://huggingface.co"  # the Hub, or a mirror of it
    token: str = field(default="", repr=False)  # "": ask as nobody in particular
    offline: bool = False  # refuse every connection
    attempts: int = 5  # in a row without a byte, before it is given up
    silence_seconds: float = 20.0  # after which a connection counts as lost
    longest_wait: float = 120.0  # seconds that the Hub may ask to wait; beyond it, it is left to the user

    def __post_init__(self) -> None:
        if not self.endpoint.startswith(("https://", "http://")):
            raise ConfigError(f"endpoint is {self.endpoint!r}; it must begin with https:// (see HF_ENDPOINT)")
        _within("attempts", self.attempts, 1, 100)
        _within("silence_seconds", self.silence_seconds, 0.01, 3600.0)
        _within("longest_wait", self.longest_wait, 0.0, 86_400.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyAcceptance:
    """Keep a guess when it is the model's own most likely token: the output equals plain greedy decoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TypicalAcceptance:
    """Keep a guess when p > min(epsilon, delta * exp(-entropy)) (Medusa, section 2.3.1): faster, approximate.

    Nothing is drawn: the same prompt gives the same reply, which is no sample of the model's own distribution.
    """

    epsilon: float = 0.09  # the threshold where the model is sure
    delta: float = 0.3  # the threshold where it is unsure, in multiples of exp(-entropy)
    temperature: float = 0.7  # divides the model's logits before p and entropy are taken

    def __post_init__(self) -> None:
        _within("epsilon", self.epsilon, 0.0, 1.0)
        _within("delta", self.delta, 0.0, 1.0)
        _within("temperature", self.temperature, 0.01, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingAcceptance:
    """Draw every token from the model's own distribution, keep a guess that is drawn: the output is a true sample."""

    temperature: float = 0.7  # divides the model's logits; 0: greedy
    top_p: float = 0.9  # only the likeliest tokens that make up this probability; 1: all
    top_k: int = 0  # only this many of the likeliest tokens; 0: all
    min_p: float = 0.0  # only tokens of at least this probability, in multiples of the likeliest token's
    repetition_penalty: float = 1.0  # above 1, tokens of the prompt and the reply so far become less likely

    def __post_init__(self) -> None:
        _within("temperature", self.temperature, 0.0, 5.0)
        _within("top_p", self.top_p, 0.0, 1.0)
        _within("top_k", self.top_k, 0, 1_000_000)
        _within("min_p", self.min_p, 0.0, 1.0)
        _within("repetition_penalty", self.repetition_penalty, 0.1, 10.0)


Acceptance = GreedyAcceptance | TypicalAcceptance | SamplingAcceptance


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingConfig:
    """How one reply is decoded."""

    acceptance: Acceptance = field(default_factory=GreedyAcceptance)
    drafter: DrafterName = "auto"  # who guesses ahead; auto: heads, lookup and recycling together; none: nobody does
    nodes: int = 0  # draft nodes a step at most, the root not counted; 0: as many as pay on this machine
    tree: TreeKind = "grown"  # of heads alone: ranked: the calibrated tree; grown: anew each step, by probabilities
    max_new_tokens: int = 512
    seed: int = 0  # of sampling: the same seed gives the same reply, whatever is drafted
    explain: bool = False  # compute the model's probability of every node, also where the rule needs none

    def __post_init__(self) -> None:
        for name, value, known in (("drafter", self.drafter, DRAFTERS), ("tree", self.tree, TREE_KINDS)):
            if value not in known:
                raise ConfigError(f"{name} is {value!r}; it must be one of {', '.join(known)}")
        _within("nodes", self.nodes, 0, 256)
        _within("max_new_tokens", self.max_new_tokens, 1, 1_000_000)
        _within("seed", self.seed, 0, 2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillConfig:
    """How a model writes its own training data."""

    tokens: int = 400_000  # reply tokens to write, all in all
    self_written: float = 0.25  # share of prompts the model writes itself, given only the opening of a user turn
    from_file: float = 0.5  # share of prompts taken from a file of the user's, as long as it has some
    multi_turn: float = 0.15  # share of conversations that go on for a second turn
    temperatures: tuple[float, ...] = (0.0, 0.7)  # each conversation draws one of them
    max_prompt_tokens: int = 384
    max_reply_tokens: int = 320
    places: int = 64  # replies written at once
    seed: int = 1

    def __post_init__(self) -> None:
        _within("tokens", self.tokens, 1, 1e12)
        _within("self_written", self.self_written, 0.0, 1.0)
        _within("from_file", self.from_file, 0.0, 1.0)
        _within("multi_turn", self.multi_turn, 0.0, 1.0)
        _within("max_prompt_tokens", self.max_prompt_tokens, 8, 100_000)
        _within("max_reply_tokens", self.max_reply_tokens, 8, 100_000)
        _within("places", self.places, 1, 4096)
        _within("seed", self.seed, 0, 2**63 - 1)
        if not self.temperatures:
            raise ConfigError("temperatures is empty; give at least one, for example 0 for greedy replies")
        for temperature in self.temperatures:
            _within("temperature", temperature, 0.0, 5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """How Medusa heads are trained on a frozen model (Medusa-1)."""

    kind: HeadsKind = "rooted"  # rooted: the heads see the root of the tree; medusa: exactly the paper's, which do not
    num_heads: int = 4  # heads; each guesses one token further than the one before
    num_layers: int = 2  # residual blocks of each head
    draft_vocab_size: int = 8192  # most frequent token ids the heads may guess; 0: all
    output: HeadsOutput = "auto"  # W2: the model's, not stored; one of their own for all heads; or own ones, one each
    soft_labels: bool = True  # learn the model's own distribution at t + k + 1, not only the token it chose
    epochs: int = 4  # times that every reply is learned from
    batch_positions: int = 512  # tokens learned from in one step, by all processes together
    accumulate: int = 1  # parts that each process computes its share of a step in: the more, the less memory
    mixed_precision: MixedPrecision = "auto"  # bf16: products in 16 bit, weights in 32; auto: where that is faster
    learning_rate: float = 3e-3  # at its highest, after the warm-up
    warmup: float = 0.05  # share of the steps
    head_weight: float = 0.8  # the loss of head k counts head_weight ** k
    held_out: float = 0.05  # share of replies kept for evaluation and calibration
    tree_nodes: int = 64  # draft nodes of the calibrated tree; decoding takes its first ones
    max_rank: int = 10  # guesses of a head that the tree may use
    checkpoint_seconds: float = 60.0
    seed: int = 1  # of everything drawn at random

    def __post_init__(self) -> None:
        if self.kind not in HEADS_KINDS:
            raise ConfigError(f"kind is {self.kind!r}; it must be one of {', '.join(HEADS_KINDS)}")
        if self.output not in HEADS_OUTPUTS:
            raise ConfigError(f"output is {self.output!r}; it must be one of {', '.join(HEADS_OUTPUTS)}")
        _within("num_heads", self.num_heads, 1, 16)
        _within("num_layers", self.num_layers, 0, 8)
        _within("draft_vocab_size", self.draft_vocab_size, 0, 10_000_000)
        _within("epochs", self.epochs, 1, 1000)
        _within("batch_positions", self.batch_positions, 1, 1_000_000)
        _within("accumulate", self.accumulate, 1, self.batch_positions)
        if self.mixed_precision not in MIXED_PRECISIONS:
            raise ConfigError(
                f"mixed_precision is {self.mixed_precision!r}; it must be one of {', '.join(MIXED_PRECISIONS)}"
            )
        _within("learning_rate", self.learning_rate, 1e-7, 1.0)
        _within("warmup", self.warmup, 0.0, 1.0)
        _within("head_weight", self.head_weight, 0.0, 1.0)
        _within("held_out", self.held_out, 0.001, 0.5)
        _within("tree_nodes", self.tree_nodes, 1, 256)
        _within("max_rank", self.max_rank, 1, 100)
        _within("checkpoint_seconds", self.checkpoint_seconds, 0.0, 86_400.0)
        _within("seed", self.seed, 0, 2**63 - 1)

    @property
    def chosen_output(self) -> HeadsOutput:
        """Never "auto": that is one for rooted heads, and for the paper's the model's, as other programs serve them."""
        if self.output != "auto":
            return self.output
        return "one" if self.kind == "rooted" else "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class Medusa2Config:
    """How heads and LoRA adapters of their model are trained together (Medusa-2), after the heads alone."""

    warm_up: bool = True  # train the heads alone before, as Medusa-1 does
    rank: int = 16  # of the adapters
    alpha: int = 16  # the adapters' change counts alpha / rank
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    epochs: int = 2  # times that every conversation is learned from
    batch_replies: int = 8  # conversations learned from in one step, by all processes together
    learning_rate: float = 5e-4  # of the adapters, at its highest
    head_rate: float = 4.0  # the heads' learning rate in multiples of the adapters'
    head_share: float = 0.2  # lambda0: what the heads' loss counts beside the model's own
    ramp: Ramp = "sine"  # how the heads' share grows to lambda0: constant is all of it from the start
    own_loss: OwnLoss = "kl"  # kl: the model is held to its own distribution; tokens: it learns the replies' tokens

    def __post_init__(self) -> None:
        _within("rank", self.rank, 1, 1024)
        _within("alpha", self.alpha, 1, 10_000)
        _within("epochs", self.epochs, 1, 1000)
        _within("batch_replies", self.batch_replies, 1, 100_000)
        _within("learning_rate", self.learning_rate, 1e-7, 1.0)
        _within("head_rate", self.head_rate, 0.001, 1000.0)
        _within("head_share", self.head_share, 0.0, 1000.0)
        if not self.targets:
            raise ConfigError("targets is empty; name the layers that get adapters, for example q_proj")
        for name, value, known in (("ramp", self.ramp, RAMPS), ("own_loss", self.own_loss, OWN_LOSSES)):
            if value not in known:
                raise ConfigError(f"{name} is {value!r}; it must be one of {', '.join(known)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateConfig:
    """How heads are measured, and the tree fitted to them."""

    tokens: int = 20_000  # tokens of held-out replies to measure on, at most
    nodes: int = 64  # draft nodes of the calibrated tree; decoding takes its first ones
    max_rank: int = 10  # guesses of a head that the tree may use
    context: int = 512  # cached tokens that the best size of the tree is worked out for

    def __post_init__(self) -> None:
        _within("tokens", self.tokens, 1, 1e9)
        _within("nodes", self.nodes, 1, 256)
        _within("max_rank", self.max_rank, 1, 100)
        _within("context", self.context, 0, 10_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectConfig:
    """What to expect of heads before anything is measured."""

    accuracies: tuple[float, ...]  # of head 1, 2, ...: the share of tokens it guesses right
    candidates: tuple[int, ...] = (1, 2, 3, 5, 10)  # guesses of every head that a tree takes, one case each
    overhead: float = 1.0  # time of a verification pass in plain passes

    def __post_init__(self) -> None:
        if not self.accuracies or not self.candidates:
            raise ConfigError("give the accuracy of at least one head, and at least one number of candidates")
        for accuracy in self.accuracies:
            _within("accuracy", accuracy, 0.0, 1.0)
        for candidates in self.candidates:
            _within("candidates", candidates, 1, 1000)
        _within("overhead", self.overhead, 0.01, 1000.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchConfig:
    """How speed is measured: which systems answer which prompts, how often."""

    systems: tuple[str, ...] = ("ours", "plain")  # which to compare; ours: as the other options say
    limit: int = 0  # prompts to take from the file's start; 0: all of them
    max_new_tokens: int = 128  # of every reply
    runs: int = 1  # times that every system answers every prompt
    warm_up: int = 16  # tokens of a reply before that, which does not count
    forget: bool = False  # let drafters forget what they learnt after every reply, not only before every run

    def __post_init__(self) -> None:
        known = (*OWN_SYSTEMS, *OTHER_SYSTEMS)
        for system in self.systems:
            if system not in known:
                raise ConfigError(f"there is no system {system!r}; systems are {', '.join(known)}")
        if not self.systems or len(set(self.systems)) != len(self.systems):
            raise ConfigError(f"systems are {', '.join(self.systems) or 'none'}; name at least one, each of them once")
        _within("limit", self.limit, 0, 1_000_000)
        _within("max_new_tokens", self.max_new_tokens, 1, 1_000_000)
        _within("runs", self.runs, 1, 1000)
        _within("warm_up", self.warm_up, 1, 1000)
