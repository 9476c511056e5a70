"""Every option of the app as declared data; the settings dialog is generated from it.

Defaults are the library's, unless the comment beside one says why not. Knows nothing of how an option is put to use.
"""

from __future__ import annotations

from collections.abc import Mapping

from app.options import Alternative, Choice, Number, Option, Place, Presets, Text, When
from medusa_core.config import DEVICES, DTYPES, DecodingConfig, ModelConfig, SamplingAcceptance, TypicalAcceptance

ANY_SEED = -1  # a new one for every reply
HIGHEST_SEED = 2**31 - 1  # the most that the control can show

_DECODING, _TYPICAL, _SAMPLING, _MODEL = DecodingConfig(), TypicalAcceptance(), SamplingAcceptance(), ModelConfig()
_WITH_TYPICAL = When("acceptance", ("typical",))
_WITH_SAMPLING = When("acceptance", ("sampling",))
_DTYPE_LABELS = {
    "auto": "Automatic",
    "fp32": "fp32, 32-bit",
    "bf16": "bf16, 16-bit",
    "fp16": "fp16, 16-bit",
    "int8": "int8, 8-bit",
    "nf4": "nf4, 4-bit",
}
_DEVICE_LABELS = {"auto": "Automatic", "cpu": "CPU", "cuda": "GPU (CUDA)"}

_ACCEPTANCE: tuple[Option, ...] = (
    Choice(
        key="acceptance",
        section="Acceptance",
        label="Acceptance rule",
        help="Which of the guesses are kept.",
        default="sampling",  # what people expect of a chat; the library's greedy is for comparing
        alternatives=(
            Alternative(
                "sampling",
                "Exact sampling",
                "Draws every token from the model’s own distribution and keeps a guess that was drawn: the words are "
                "as the model alone would write them, only sooner.",
            ),
            Alternative(
                "greedy",
                "Greedy",
                "Keeps a guess only where it is the model’s own first choice: the reply is the one plain greedy "
                "decoding writes (in half precision, rounding can tip a close call).",
            ),
            Alternative(
                "typical",
                "Typical",
                "Keeps a guess the model finds plausible enough: faster, but approximate – the reply is no longer "
                "what the model would write by itself.",
            ),
        ),
    ),
    Number(
        key="temperature",
        section="Acceptance",
        label="Temperature",
        help="Below 1 the likeliest tokens gain; above 1 the unlikely ones do.",
        default=_SAMPLING.temperature,
        low=0.05,
        high=2.0,
        step=0.05,
        decimals=2,
        only_with=When("acceptance", ("sampling", "typical")),
    ),
    Number(
        key="top_p",
        section="Acceptance",
        group="Exact sampling",
        label="Top-p",
        help="Only the likeliest tokens that together have this probability; 1: all.",
        default=_SAMPLING.top_p,
        low=0.01,
        high=1.0,
        step=0.05,
        decimals=2,
        only_with=_WITH_SAMPLING,
    ),
    Number(
        key="top_k",
        section="Acceptance",
        group="Exact sampling",
        label="Top-k",
        help="Only this many of the likeliest tokens.",
        default=_SAMPLING.top_k,
        low=0,
        high=1000,
        step=5,
        unit="tokens",
        at_low="off",
        only_with=_WITH_SAMPLING,
    ),
    Number(
        key="min_p",
        section="Acceptance",
        group="Exact sampling",
        label="Min-p",
        help="Only tokens at least this likely, as a share of the likeliest one’s probability.",
        default=_SAMPLING.min_p,
        low=0.0,
        high=1.0,
        step=0.01,
        decimals=2,
        at_low="off",
        only_with=_WITH_SAMPLING,
    ),
    Number(
        key="repetition_penalty",
        section="Acceptance",
        group="Exact sampling",
        label="Repetition penalty",
        help="Above 1, tokens that were there before become less likely; 1: none.",
        default=_SAMPLING.repetition_penalty,
        low=0.5,
        high=2.0,
        step=0.05,
        decimals=2,
        only_with=_WITH_SAMPLING,
    ),
    Number(
        key="seed",
        section="Acceptance",
        group="Exact sampling",
        label="Seed",
        help="The same seed gives the same reply. The one a reply was drawn with is in the tooltip of its last line.",
        default=ANY_SEED,  # the library's is fixed, so that its figures can be had again
        low=ANY_SEED,
        high=HIGHEST_SEED,
        step=1,
        automatic="New for every reply",
        manual=1,
        only_with=_WITH_SAMPLING,
    ),
    Number(
        key="epsilon",
        section="Acceptance",
        group="Typical acceptance",
        label="Epsilon, ε",
        help="What a guess needs where the model is sure. Lower keeps more guesses.",
        default=_TYPICAL.epsilon,
        low=0.0,
        high=1.0,
        step=0.01,
        decimals=2,
        only_with=_WITH_TYPICAL,
    ),
    Number(
        key="delta",
        section="Acceptance",
        group="Typical acceptance",
        label="Delta, δ",
        help="Scales what a guess needs where the model is unsure: δ·exp(−H) at entropy H. Lower keeps more guesses.",
        default=_TYPICAL.delta,
        low=0.0,
        high=1.0,
        step=0.05,
        decimals=2,
        only_with=_WITH_TYPICAL,
    ),
)

_DRAFTING: tuple[Option, ...] = (
    Choice(
        key="drafter",
        section="Drafting",
        label="Guesses from",
        help="Who guesses ahead of the model.",
        default=_DECODING.drafter,
        # The library's "hybrid" is left out: "auto" is the same.
        alternatives=(
            Alternative("auto", "Everything at hand", "Heads, lookup and recycling in one tree, by what each earns."),
            Alternative("medusa", "Medusa heads", "Only the heads trained for this model."),
            Alternative(
                "lookup", "Lookup", "What followed the same words earlier in the conversation. Needs no heads."
            ),
            Alternative(
                "recycling",
                "Recycling",
                "What the model thought should follow when it last saw the same token. Needs no heads.",
            ),
            Alternative("none", "Nobody", "Plain decoding, one token per step: for comparison."),
        ),
    ),
    Number(
        key="nodes",
        section="Drafting",
        label="Tree size",
        help="Guesses checked in one pass of the model, at most.",
        default=_DECODING.nodes,
        low=0,
        high=64,
        step=1,
        unit="guesses",
        automatic="As many as pay on this machine",
        manual=16,
        only_with=When("drafter", ("auto", "medusa", "lookup", "recycling")),
    ),
    Choice(
        key="tree",
        section="Drafting",
        label="Shape of the tree",
        help="With the heads alone: the shape that did best in calibration, or a new one for every step by what the "
        "heads think.",
        default=_DECODING.tree,
        alternatives=(Alternative("ranked", "Calibrated"), Alternative("grown", "New each step")),
        only_with=When("drafter", ("medusa",)),
    ),
)

_REPLY: tuple[Option, ...] = (
    Number(
        key="max_new_tokens",
        section="Reply",
        label="Longest reply",
        help="The reply is cut there, and says so.",
        default=_DECODING.max_new_tokens,
        low=1,
        high=32_768,
        step=64,
        unit="tokens",
    ),
    Presets(
        key="prompt_presets",
        section="Reply",
        label="Preset",
        help="Fills in the system prompt below.",
        default={},
        is_content=True,
        target="system_prompt",
        built_in=(
            ("None", ""),
            ("Concise", "Answer briefly and directly, in three sentences at most."),
            ("Teacher", "Explain in plain words, step by step, and give one example."),
            ("Editor", "Correct the grammar and style of the text you are given. Reply with the corrected text only."),
            ("Storyteller", "You tell vivid short stories. Show rather than explain, and end with a surprise."),
        ),
    ),
    Text(
        key="system_prompt",
        section="Reply",
        label="System prompt",
        help="Given to the model before the conversation.",
        default="",
        placeholder="Empty: the model’s own default",
    ),
)

_MODEL_OPTIONS: tuple[Option, ...] = (
    Place(
        key="model",
        section="Model",
        label="Model",
        help="“default” is SmolLM2-135M-Instruct; or the folder of another chat model.",
        default=_MODEL.model,
        names=("default",),
        needs_reload=True,
    ),
    Place(
        key="heads",
        section="Model",
        label="Medusa heads",
        help="“default” are those that suit the model: shipped with the app, trained here or got for it; “paper” those "
        "exactly as in the paper, for the default model; “none” loads none; or a folder of heads.",
        default=_MODEL.heads,
        names=("default", "paper", "none"),
        needs_reload=True,
    ),
    Choice(
        key="dtype",
        section="Model",
        label="Precision",
        help="Fewer bits need less memory and round more; nf4 is for GPUs.",
        default=_MODEL.dtype,
        alternatives=tuple(Alternative(name, _DTYPE_LABELS.get(name, name)) for name in DTYPES),
        needs_reload=True,
    ),
    Choice(
        key="device",
        section="Model",
        label="Device",
        help="Automatic takes the GPU where there is one.",
        default=_MODEL.device,
        alternatives=tuple(Alternative(name, _DEVICE_LABELS.get(name, name)) for name in DEVICES),
        needs_reload=True,
    ),
)

_WINDOW: tuple[Option, ...] = (
    Choice(
        key="theme",
        section="Appearance",
        label="Theme",
        help="",
        default="system",
        alternatives=(
            Alternative("system", "As the system"),
            Alternative("light", "Light"),
            Alternative("dark", "Dark"),
        ),
    ),
    Number(
        key="font_size",
        section="Appearance",
        label="Font size",
        help="Of the text; captions and headings follow.",
        default=12,
        low=12,
        high=28,
        step=1,
        unit="px",
        automatic="As the system",
        manual=15,
    ),
    Number(
        key="scale",
        section="Appearance",
        label="Scale",
        help="Of everything in the window, on top of the system’s own.",
        default=100,
        low=100,
        high=300,
        step=25,
        unit="%",
        needs_restart=True,
    ),
    Place(
        key="data_folder",
        section="Data",
        label="Data folder",
        help="Where conversations and converted models are kept; “default” is the system’s place for them. What is "
        "there already is not moved.",
        default="default",
        names=("default",),
        needs_restart=True,
    ),
)

OPTIONS = _ACCEPTANCE + _DRAFTING + _REPLY + _MODEL_OPTIONS + _WINDOW
BY_KEY: Mapping[str, Option] = {option.key: option for option in OPTIONS}
