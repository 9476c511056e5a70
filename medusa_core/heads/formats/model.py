"""The model that heads belong to, from its folder: its identity without its weights, and its output head alone.

Knows nothing of heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from medusa_core.backbone.base import BackboneSpec
from medusa_core.backbone.load import check_config, load_model, make_spec, quiet_loading
from medusa_core.errors import ModelUnsupported


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model on disk."""

    folder: Path
    spec: BackboneSpec
    empty: Any  # the transformers model without memory: names and shapes of its weights

    def output_weight(self) -> torch.Tensor:
        """The output head (V, H) as it is stored; of a tied model the embedding. Raises as `load_backbone`."""
        weight = self.empty.get_output_embeddings().weight
        names = {name for name, other in self.empty.named_parameters(remove_duplicate=False) if other is weight}
        if self.empty.config.get_text_config(decoder=True).tie_word_embeddings:
            embedding = self.empty.get_input_embeddings().weight
            names |= {name for name, other in self.empty.named_parameters(remove_duplicate=False) if other is embedding}
        stored = _stored(self.folder, names, tuple(weight.shape))
        if stored is not None:
            return stored
        # Under other names, or pickled: the whole model must be read, in the precision it is stored in.
        whole = load_model(self.folder, "int8", torch.device("cpu"))
        found: torch.Tensor = whole.get_output_embeddings().weight.detach()
        return found


def open_model(folder: Path, name: str) -> ModelFolder:
    """The model in this folder, which is known as `name`. Raises ModelUnsupported where it cannot be read."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    check_config(folder)
    try:
        with quiet_loading(), torch.device("meta"):
            config = AutoConfig.from_pretrained(folder, local_files_only=True)
            tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            empty: Any = AutoModelForCausalLM.from_config(config)
    except (OSError, ValueError, KeyError, ImportError) as error:
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelUnsupported(f"The model in {folder} cannot be opened: {said}") from error
    return ModelFolder(folder, make_spec(empty, tokenizer, name), empty)


def _stored(folder: Path, names: set[str], shape: tuple[int, ...]) -> torch.Tensor | None:
    """The first tensor of one of these names and this shape in the folder's safetensors files."""
    from safetensors import SafetensorError, safe_open

    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                for name in names.intersection(file.keys()):
                    if tuple(file.get_slice(name).get_shape()) == shape:
                        found: torch.Tensor = file.get_tensor(name)
                        return found
        except (OSError, SafetensorError) as error:
            raise ModelUnsupported(f"{path} is damaged: {error}. Get the model again.") from error
    return None
