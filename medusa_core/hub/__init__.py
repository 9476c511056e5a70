"""Models and heads on disk and on the Hub: names become folders, models are got, listed, checked and removed.

The names that others need stand here; each topic has its file. Importing this is light. Knows nothing of backbones.
"""

from medusa_core.hub.gguf import convert_gguf
from medusa_core.hub.names import default_gguf, heads_folder, model_folder
from medusa_core.hub.places import DEFAULT, DEFAULT_MODEL_NAME, NONE, PAPER, default_cache, resources_folder

__all__ = [
    "DEFAULT",
    "DEFAULT_MODEL_NAME",
    "NONE",
    "PAPER",
    "convert_gguf",
    "default_cache",
    "default_gguf",
    "heads_folder",
    "model_folder",
    "resources_folder",
]
