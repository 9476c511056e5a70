"""From a model folder on disk to a backbone and its tokenizer: which device, which precision, does it fit.

Knows nothing of where folders come from (`hub.py`) or of heads.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pickle
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, cast

import torch

from medusa_core import fit
from medusa_core.backbone import graphs, int8_loading, lean, recurrent
from medusa_core.backbone.base import Backbone, BackboneSpec
from medusa_core.config import Device, Dtype
from medusa_core.errors import ConfigError, ModelUnsupported, OutOfMemory
from medusa_core.events import Progress
from medusa_core.model_info import ChatMessage
from medusa_core.text import ChatText

_STAGES = 4
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def load_backbone(
    folder: Path, dtype: Dtype, device: Device, adapt: Callable[[Any, BackboneSpec], Any] | None = None
) -> Generator[Progress, None, tuple[Backbone, ChatText, str]]:
    """Load the folder's model; returns the backbone, its tokenizer for chats, and the dtype chosen.

    `adapt` may change the transformers model before the pass takes its weights; it returns the model to go on with.
    Raises OutOfMemory before loading where it does not fit, ModelUnsupported, ConfigError for a device that is not
    there.
    """
    yield Progress("Loading the model: checking that it fits", 0, _STAGES)
    check_config(folder)
    place = choose_device(device)
    precision = choose_dtype(dtype, place)
    gpus = check_fit(folder, precision, place)
    yield Progress("Loading the model: tokenizer", 1, _STAGES)
    tokenizer = _load_tokenizer(folder)
    yield Progress("Loading the model: weights", 2, _STAGES)
    with memory_errors(
        f"There was not enough memory to load {_display_name(folder)}. "
        "Close other programs, or choose a smaller model or precision."
    ):
        model = _load_model(folder, precision, place, gpus)
        yield Progress("Loading the model: preparing the pass", 3, _STAGES)
        text = ChatText(tokenizer, _stop_ids(model, tokenizer))
        spec = make_spec(model, tokenizer, _display_name(folder))
        model = model if adapt is None else adapt(model, spec)
        in_int8 = precision == "int8" and place.type == "cpu"
        problem = int8_loading.model_problem(model) if in_int8 else ""
        lacking = int8_loading.machine_problem() if dtype == "auto" and place.type == "cpu" else ""
        if problem and dtype != "auto":
            raise ModelUnsupported(f"{spec.name} cannot run in int8: {problem}. Choose bf16 or fp32.")
        if problem:
            precision = _faster_float()
            model = model.to(_DTYPES[precision])
        if in_int8 and not problem:
            backbone = yield from int8_loading.int8_backbone(model, spec, _questions(text, tokenizer), folder)
        else:
            backbone = make_backbone(model, spec)
    reason = problem or lacking
    return backbone, text, f"{precision} (no int8: {reason})" if reason else precision


def _questions(text: ChatText, tokenizer: Any) -> list[list[int]]:
    """What a model answers to be measured for int8, as chats begin, as far as it has a template for them."""
    if not text.has_template:
        return [tokenizer.encode(question) for question in int8_loading.QUESTIONS]
    return [text.prompt_ids([ChatMessage(role="user", content=question)]) for question in int8_loading.QUESTIONS]


def load_model(folder: Path, precision: str, device: torch.device) -> Any:
    """The folder's transformers model, frozen, for those who train beside it. Raises as `load_backbone`."""
    gpus = check_fit(folder, precision, device)
    with memory_errors(f"There was not enough memory to load {_display_name(folder)} for training. Close programs."):
        return _load_model(folder, precision, device, gpus)


def make_backbone(model: Any, spec: BackboneSpec, *, keep_model: bool = False) -> Backbone:
    """The lean pass where it can run the model, else transformers' own; on a GPU in fixed shapes, recorded."""
    if not lean.unsupported_reason(model):
        backbone = lean.LeanBackbone(model, spec, keep_model=keep_model)
        return graphs.static_backbone(backbone) if backbone.device.type == "cuda" else backbone
    return recurrent.stock_backbone(model, spec)


def make_spec(model: Any, tokenizer: Any, name: str) -> BackboneSpec:
    """Sizes and identity of a transformers model."""
    config = model.config.get_text_config(decoder=True)
    context = int(getattr(config, "max_position_embeddings", 4096))
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None) or ["sliding_attention"]
    if window and "sliding_attention" in kinds and config.model_type in lean.FAMILIES:
        # The lean pass knows no window: within it, it makes no difference.
        context = min(context, int(window))
    return BackboneSpec(
        name=name,
        family=config.model_type,
        hidden_size=config.hidden_size,
        vocab_size=model.get_output_embeddings().weight.shape[0],
        num_layers=config.num_hidden_layers,
        context_size=context,
        parameters=model.num_parameters(),
        fingerprint=fingerprint(config, tokenizer),
        gpus=lean.devices(model),
    )


def fingerprint(config: Any, tokenizer: Any) -> str:
    """A hash of the sizes and the vocabulary: the same for one model in every precision and file format."""
    sizes = {
        name: getattr(config, name, None)
        for name in (
            "model_type",
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
            "vocab_size",
        )
    }
    digest = hashlib.sha256(json.dumps(sizes, sort_keys=True).encode())
    for token, index in sorted(tokenizer.get_vocab().items(), key=lambda item: (item[1], item[0])):
        digest.update(f"{index}:{token}\n".encode())
    return digest.hexdigest()[:16]


def choose_device(device: Device) -> torch.device:
    """The device asked for, or CUDA where there is one."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            "No CUDA GPU can be used here: either there is none, or this is a CPU build of PyTorch. "
            "Choose the CPU, or install a CUDA build as the README says."
        )
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(device)


def choose_dtype(dtype: Dtype, device: torch.device) -> str:
    """The precision asked for; `auto` is bf16 (else fp16) on CUDA, and on the CPU int8, else the faster of the others.

    Raises ConfigError for int8 on a CPU that cannot run it.
    """
    if dtype == "int8" and device.type == "cpu" and (problem := int8_loading.machine_problem()):
        raise ConfigError(f"int8 cannot be used here: {problem}. Choose bf16 or fp32.")
    if dtype != "auto":
        return dtype
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    return _faster_float() if int8_loading.machine_problem() else "int8"


def _faster_float() -> str:
    """On the CPU, whichever passes a tree faster."""
    return "bf16" if _tree_product_seconds(torch.bfloat16) < _tree_product_seconds(torch.float32) else "fp32"


def _tree_product_seconds(dtype: torch.dtype) -> float:
    """The time of one product of a tree's size. Processors without 16-bit instructions are far slower in bf16."""
    from medusa_core.backbone.linear import fastest

    weight, rows = torch.ones(2048, 512, dtype=dtype), torch.ones(16, 512, dtype=dtype)
    multiply = fastest(weight)
    best = float("inf")
    for _ in range(4):
        started = time.perf_counter()
        multiply(rows)
        best = min(best, time.perf_counter() - started)
    return best


def check_fit(folder: Path, precision: str, device: torch.device) -> int:
    """Refuse before loading what would not fit: on the CPU the system kills the program without a word.

    Returns how many GPUs the model has to be spread over: 1 where one of them is enough, and on the CPU.
    """
    return fit.best_fit(_display_name(folder), fit.folder_sizes(folder), (precision,), device.type).gpus


def fitting_dtype(folder: Path, dtype: Dtype, device: Device, context: int = 0, heads: Path | None = None) -> Dtype:
    """The dtype to load a folder in: the one asked for, or a smaller one where it is "auto" and memory is short.

    `context`: tokens of conversation to make room for, 0 for as many as usual. Raises as `load_backbone`.
    """
    place, sizes = choose_device(device), fit.folder_sizes(folder)
    precisions = fitting_precisions(dtype, place)
    found = fit.best_fit(
        _display_name(folder),
        sizes,
        precisions,
        place.type,
        context=fit.chosen_context(sizes, context),
        heads_bytes=fit.folder_bytes(heads),
        others=(*_smaller(place), "nf4"),
    )
    return dtype if found.need.precision == precisions[0] else cast(Dtype, found.need.precision)


def fitting_precisions(dtype: Dtype, place: torch.device) -> tuple[str, ...]:
    """Which precisions to try for a dtype, the best first: more than one only for "auto"."""
    first = choose_dtype(dtype, place)
    return (first,) if dtype != "auto" else tuple(dict.fromkeys([first, *_smaller(place)]))


def _smaller(place: torch.device) -> tuple[str, ...]:
    """Precisions that save memory, the largest first. On the CPU NF4 is slow, so it must be asked for."""
    return ("int8", "nf4") if place.type == "cuda" else ("bf16",)


def check_config(folder: Path) -> None:
    """Raises ModelUnsupported for a config.json that cannot be read: transformers would blame the tokenizer."""
    path = folder / "config.json"
    try:
        config: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelUnsupported(f"{path} cannot be read: {_first_line(error)}. Get the model again.") from error
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), str):
        raise ModelUnsupported(f"{path} is broken: it names no model_type. Get the model again.")


def _load_tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise ModelUnsupported(f"The tokenizer in {folder} cannot be loaded: {_first_line(error)}") from error


def _placed(device: torch.device, gpus: int) -> dict[str, Any]:
    """Where the weights go, for transformers: on one device, or spread over all GPUs and never beside them."""
    return {"device_map": {"": device}} if gpus == 1 else {"device_map": "auto", "max_memory": fit.spread_bytes()}


def _load_model(folder: Path, precision: str, device: torch.device, gpus: int) -> Any:
    import transformers
    from safetensors import SafetensorError

    options: dict[str, Any] = {"dtype": _DTYPES.get(precision, "auto"), **_placed(device, gpus)}
    if precision == "nf4":
        # 16-bit products on a GPU; on the CPU NF4 serves tests, where exact comparisons need fp32.
        compute = torch.bfloat16 if device.type == "cuda" else torch.float32
        options["dtype"] = compute
        options["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=compute,
        )
    elif precision == "int8" and device.type == "cuda":
        options["quantization_config"] = transformers.BitsAndBytesConfig(load_in_8bit=True)
    try:
        with quiet_loading():
            loaded: Any = transformers.AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, output_loading_info=True, **options
            )
    except pickle.UnpicklingError as error:
        raise ModelUnsupported(
            f"The pickled weights in {folder} hold more than numbers, or are damaged. They are not read any other way, "
            "since reading could run what is in them. Get the model as *.safetensors."
        ) from error
    except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
        raise ModelUnsupported(f"The model in {folder} cannot be loaded: {_first_line(error)}") from error
    model, report = loaded
    if missing := sorted(report["missing_keys"]):
        # transformers fills them with random numbers and goes on.
        raise ModelUnsupported(
            f"The model in {folder} is incomplete: {len(missing)} weights are missing, {missing[0]} among them."
        )
    if precision == "nf4" and device.type == "cpu":
        # With bf16 instructions the library repacks the weights at the first pass: no longer exact, and it fails on
        # widths that are no multiple of its block.
        for module in model.modules():
            if hasattr(module, "support_avx512bf16_for_cpu"):
                module.support_avx512bf16_for_cpu = False
    return model.eval().requires_grad_(False)


def _stop_ids(model: Any, tokenizer: Any) -> list[int]:
    """Every id that ends a turn: the generation configuration may name several."""
    ids: set[int] = set()
    for value in (model.generation_config.eos_token_id, tokenizer.eos_token_id):
        ids.update([value] if isinstance(value, int) else value or [])
    return sorted(ids)


def _display_name(folder: Path) -> str:
    return folder.resolve().name


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextlib.contextmanager
def memory_errors(message: str) -> Iterator[None]:
    """Turn a failed allocation into the library's own error, with this message."""
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfMemory(message) from error
    except RuntimeError as error:
        # Of the CPU's memory PyTorch reports a plain RuntimeError, which only its text tells from a bug.
        if "allocate memory" not in str(error):
            raise
        raise OutOfMemory(message) from error


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """transformers reports loading on stderr; here the caller does."""
    from transformers.utils import logging

    bars, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
