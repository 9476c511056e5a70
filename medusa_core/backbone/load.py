"""From a model folder on disk to a backbone and its tokenizer: which device, which precision, does it fit.

Knows nothing of where folders come from (`hub.py`) or of heads.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pickle
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import torch

from medusa_core import fit
from medusa_core.backbone import graphs, int8_loading, lean, recurrent
from medusa_core.backbone.base import Backbone, BackboneSpec
from medusa_core.backbone.precision import (
    choose_device,
    faster_float,
    folder_precisions,
    int8_problem,
    stored_precision,
)
from medusa_core.config import Device, Dtype
from medusa_core.errors import ModelUnsupported, OutOfMemory
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
    stored, lacking = stored_precision(folder), int8_problem(folder, dtype, place)
    precision = folder_precisions(folder, dtype, place)[0]
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
        in_int8 = precision == "int8" and place.type == "cpu" and not stored
        problem = int8_loading.model_problem(model) if in_int8 else ""
        if problem and dtype != "auto":
            raise ModelUnsupported(f"{spec.name} cannot run in int8: {problem}. Choose bf16 or fp32.")
        if problem:
            precision = _fitting_float(folder, place)
            model = model.to(_DTYPES[precision])
        if in_int8 and not problem:
            backbone = yield from int8_loading.int8_backbone(model, spec, _questions(text, tokenizer), folder)
        else:
            backbone = make_backbone(model, spec)
    reason = problem or lacking
    if stored == "int8":
        precision = "int8 of bitsandbytes"
    return backbone, text, f"{precision} (no int8: {reason})" if reason else precision


def _fitting_float(folder: Path, place: torch.device) -> str:
    """In place of int8 the faster precision, or the smaller where memory is short; the weights are there already."""
    precision = faster_float()
    try:
        check_fit(folder, precision, place)
    except OutOfMemory:
        return "bf16"
    return precision


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


def check_fit(folder: Path, precision: str, device: torch.device) -> int:
    """Refuse before loading what would not fit: on the CPU the system kills the program without a word.

    Returns how many GPUs the model has to be spread over: 1 where one of them is enough, and on the CPU.
    """
    return fit.best_fit(_display_name(folder), fit.folder_sizes(folder), (precision,), device.type).gpus


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
    if stored_precision(folder):
        pass  # its own configuration says how
    elif precision == "nf4":
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
