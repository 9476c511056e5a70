"""Every exception the library raises on purpose.

    MedusaError
    ├── ConfigError           (ValueError)    an option or a setting is out of its range
    ├── TreeError             (ValueError)    parents or ranks do not describe a tree
    ├── StatisticsError       (ValueError)    head statistics or measured costs are broken
    ├── ModelNotFound         (FileNotFoundError)  no model at that place
    ├── ModelUnsupported      (ValueError)    the model cannot be verified through a tree
    ├── NoChatTemplate        (ValueError)    the tokenizer cannot write a chat prompt
    ├── CheckpointError       (ValueError)    a heads file is broken or incomplete
    │   └── CheckpointMismatch                a heads file belongs to another model
    ├── OutOfMemory           (MemoryError)   it does not fit, or an allocation failed
    ├── DiskFull              (OSError)       not enough room to write
    └── TrainingError         (RuntimeError)  training cannot go on (NaN loss, no labels, ...)

Each message names what was wrong, the values, and the way on. Knows nothing of where the message is shown.
"""

from __future__ import annotations


class MedusaError(Exception):
    """Root of the library's exceptions."""


class ConfigError(MedusaError, ValueError):
    """An option or a setting is out of its range."""


class TreeError(MedusaError, ValueError):
    """Parents or ranks do not describe a tree."""


class StatisticsError(MedusaError, ValueError):
    """Head statistics or measured costs are broken, or count what cannot be."""


class ModelNotFound(MedusaError, FileNotFoundError):
    """No model at the place given."""


class ModelUnsupported(MedusaError, ValueError):
    """The model cannot be loaded, or cannot be verified through a candidate tree."""


class NoChatTemplate(MedusaError, ValueError):
    """The tokenizer cannot write a chat prompt."""


class CheckpointError(MedusaError, ValueError):
    """A heads file is broken or incomplete."""


class CheckpointMismatch(CheckpointError):
    """A heads file belongs to another model."""


class OutOfMemory(MedusaError, MemoryError):
    """It does not fit into memory, or an allocation failed."""


class DiskFull(MedusaError, OSError):
    """Not enough room to write."""


class TrainingError(MedusaError, RuntimeError):
    """Training cannot go on."""
