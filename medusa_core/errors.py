"""Every exception the library raises on purpose.

    MedusaError
    ├── ConfigError           (ValueError)    an option or a setting is out of its range
    ├── TreeError             (ValueError)    parents or ranks do not describe a tree
    ├── StatisticsError       (ValueError)    head statistics or measured costs are broken
    ├── ModelNotFound         (FileNotFoundError)  no model at that place
    │   └── NotGotYet                         a model of the Hub that is not on this machine
    ├── ModelUnsupported      (ValueError)    the model cannot be verified through a tree
    ├── NoChatTemplate        (ValueError)    the tokenizer cannot write a chat prompt
    ├── CheckpointError       (ValueError)    a heads file is broken or incomplete
    │   └── CheckpointMismatch                a heads file belongs to another model
    ├── OutOfMemory           (MemoryError)   it does not fit, or an allocation failed
    │   └── DoesNotFit                        weights, heads and cache together exceed the free memory
    ├── DiskFull              (OSError)       not enough room to write
    ├── HubError              (OSError)       the Hub refused, cannot be reached, or sent something broken
    │   ├── HubUnreachable                    no connection: network, proxy, certificate, offline, too busy
    │   ├── NotOnHub                          no such model, revision or file there
    │   │   └── FileNotChosen                 several files, one of which must be chosen
    │   ├── AccessRefused                     gated, private, or a token that is not accepted
    │   └── DownloadDamaged                   what arrived is not what the Hub says it is
    ├── LibraryError          (ValueError)    the folder of models cannot do what was asked of it
    ├── CatalogueError        (ValueError)    the catalogue of models is broken
    └── TrainingError         (RuntimeError)  training cannot go on (NaN loss, no labels, ...)

Each message names what was wrong, the values, and the way on. Knows nothing of where the message is shown.
"""

from __future__ import annotations

from collections.abc import Mapping


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


class NotGotYet(ModelNotFound):
    """A model of the Hub that was not downloaded; `repo` is its name there."""

    def __init__(self, message: str, repo: str = "") -> None:
        super().__init__(message)
        self.repo = repo


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


class DoesNotFit(OutOfMemory):
    """Weights, heads and cache together exceed the free memory."""


class DiskFull(MedusaError, OSError):
    """Not enough room to write."""


class HubError(MedusaError, OSError):
    """The Hub refused, cannot be reached, or sent something broken."""


class HubUnreachable(HubError):
    """No connection to the Hub: network, proxy, certificate, offline mode, or it is too busy."""


class NotOnHub(HubError):
    """No such model, revision or file on the Hub."""


class FileNotChosen(NotOnHub):
    """The repository holds several files, of which one must be chosen; `files`: their sizes in bytes by name."""

    def __init__(self, message: str, files: Mapping[str, int] | None = None) -> None:
        super().__init__(message)
        self.files = dict(files or {})


class AccessRefused(HubError):
    """The model is gated or private, or the token is not accepted."""


class DownloadDamaged(HubError):
    """What arrived is not what the Hub says it is."""


class LibraryError(MedusaError, ValueError):
    """The folder of models cannot do what was asked of it."""


class CatalogueError(MedusaError, ValueError):
    """The catalogue of models is broken."""


class TrainingError(MedusaError, RuntimeError):
    """Training cannot go on."""
