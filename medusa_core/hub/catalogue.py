"""The catalogue: models worth having, with their sizes, licences and published heads, and chat templates some lack.

Read strictly from `resources/catalogue.json`: a broken file is named, never half used. Says of each model whether it
fits this machine and whether there are heads. Knows nothing of connections or of how models are loaded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from medusa_core.errors import CatalogueError
from medusa_core.fit import ModelSizes
from medusa_core.hub.places import DEFAULT, DEFAULT_MODEL_NAME, resources_folder

HeadsFormat = Literal["medusa-0.1", "tgi-v1", "tgi-v2", "medusa-2", "vllm"]
HeadsState = Literal["included", "trained here", "published", "none yet"]

_VERSION = 1
_FORMATS = ("medusa-0.1", "tgi-v1", "tgi-v2", "medusa-2", "vllm")
_TEMPLATE_FILES = ("chat_template.jinja", "chat_template.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedHeads:
    """Medusa heads that somebody has published for a model."""

    repo: str
    format: HeadsFormat
    heads: int  # how many; 0: not known
    note: str = ""

    @property
    def whole_model(self) -> bool:
        """Medusa-2: the repository holds a model of its own, changed together with its heads."""
        return self.format == "medusa-2"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueEntry:
    """One model."""

    model: str  # ORG/NAME on the Hub, or "default"
    licence: str
    size: int  # bytes to download
    parameters: int
    embedding: int  # of them, those of embedding and output head
    layers: int
    kv_heads: int
    head_dim: int
    context: int  # tokens
    heads: tuple[PublishedHeads, ...] = ()
    gated: bool = False  # its makers ask to agree to terms first
    template: str = ""  # name of the chat template that the model itself does not ship
    note: str = ""

    @property
    def sizes(self) -> ModelSizes:
        """As the fit check takes them."""
        return ModelSizes(self.parameters, self.embedding, self.layers, self.kv_heads, self.head_dim, self.context)

    @property
    def name(self) -> str:
        """As heads remember their model: without its maker."""
        return DEFAULT_MODEL_NAME if self.model == DEFAULT else self.model.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All of it."""

    models: tuple[CatalogueEntry, ...]
    templates: Mapping[str, str]

    def entry(self, name: str) -> CatalogueEntry | None:
        """The entry of a model, by ORG/NAME or by its name alone."""
        return next((entry for entry in self.models if name.lower() in (entry.model.lower(), entry.name.lower())), None)

    def template(self, name: str) -> str:
        """The chat template for a model that ships none, by ORG/NAME or by its name alone; "" where there is none.

        Medusa-2 repositories are models of their own, and take the template of the model they came from.
        """
        for entry in self.models:
            names = {entry.model, entry.name}
            for heads in entry.heads:
                names |= {heads.repo, heads.repo.rpartition("/")[2]} if heads.whole_model else set()
            if entry.template and name.lower() in {known.lower() for known in names}:
                return self.templates[entry.template]
        return ""


def read_catalogue(path: Path | None = None) -> Catalogue:
    """Read the catalogue that came with the program, or another file. Raises CatalogueError."""
    path = path or resources_folder() / "catalogue.json"
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CatalogueError(f"The catalogue {path} cannot be read: {error}. Install the program again.") from error
    try:
        return _catalogue(found)
    except (TypeError, ValueError, KeyError) as error:
        reason = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise CatalogueError(f"The catalogue {path} is broken: {reason}. Install the program again.") from error


def heads_state(entry: CatalogueEntry, *, shipped: frozenset[str], trained: frozenset[str]) -> HeadsState:
    """Whether there are heads for a model: trained on this machine, come with the program, published, or none yet.

    `shipped`, `trained`: names of the models that heads belong to.
    """
    if entry.name in trained:
        return "trained here"
    if entry.name in shipped:
        return "included"
    return "published" if entry.heads else "none yet"


def trained_models(folder: Path) -> frozenset[str]:
    """The names of the models that the heads in the folders under `folder` were trained for."""
    return frozenset(trained_heads(folder))


def trained_heads(folder: Path) -> dict[str, Path]:
    """Folders of heads under `folder`, by the name of the model they were trained for; of several the last by name."""
    found = {}
    for path in sorted(folder.glob("*/config.json")):
        try:
            found[str(json.loads(path.read_text(encoding="utf-8"))["base_model"]["name"])] = path.parent
        except (OSError, ValueError, KeyError, TypeError):
            continue  # no heads of ours
    return found


def has_template(folder: Path) -> bool:
    """Whether a model folder ships a chat template."""
    if any((folder / name).is_file() for name in _TEMPLATE_FILES):
        return True
    try:
        found: Any = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and bool(found.get("chat_template"))


def add_template(folder: Path, name: str) -> list[str]:
    """Write the catalogue's chat template into a model folder that ships none; the names of files written."""
    if has_template(folder):
        return []
    template = read_catalogue().template(name)
    if not template:
        return []
    (folder / _TEMPLATE_FILES[0]).write_text(template, encoding="utf-8")
    return [_TEMPLATE_FILES[0]]


def _catalogue(found: Any) -> Catalogue:
    _check_keys("the catalogue", found, {"version", "templates", "models"}, {"version", "templates", "models"})
    if found["version"] != _VERSION:
        raise ValueError(f"it is of version {found['version']}, and this program reads {_VERSION}")
    templates = found["templates"]
    if not isinstance(templates, dict) or not all(isinstance(text, str) for text in templates.values()):
        raise ValueError("templates must be texts by name")
    models = tuple(_entry(entry) for entry in found["models"])
    names = [entry.model for entry in models]
    if len(set(names)) != len(names):
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)} stands there twice")
    for entry in models:
        if entry.template and entry.template not in templates:
            raise ValueError(f"{entry.model} names a template {entry.template!r} that is not there")
    return Catalogue(models, templates)


def _entry(found: Any) -> CatalogueEntry:
    what = str(found.get("model", "a model")) if isinstance(found, dict) else "a model"
    _check_fields(what, found, CatalogueEntry)
    if not isinstance(found.get("heads", []), list):
        raise TypeError(f"heads of {what} must be a list")
    heads = []
    for each in found.get("heads", []):
        _check_fields(f"heads of {what}", each, PublishedHeads)
        if each["format"] not in _FORMATS:
            raise ValueError(f"heads of {what} are in {each['format']!r}; known are {', '.join(_FORMATS)}")
        heads.append(PublishedHeads(**each))
    return CatalogueEntry(**{**found, "heads": tuple(heads)})


_KINDS: dict[str, type] = {"str": str, "int": int, "bool": bool, "HeadsFormat": str}


def _check_fields(what: str, found: Any, kind: type[Any]) -> None:
    """Every field that has no default is there, none is there that the class does not know, all are of their type."""
    from dataclasses import MISSING

    needed = {field.name for field in fields(kind) if field.default is MISSING}
    _check_keys(what, found, needed, {field.name for field in fields(kind)})
    for field in fields(kind):
        expected = _KINDS.get(str(field.type))
        value = found.get(field.name)
        if expected is None or field.name not in found:
            continue
        if type(value) is not expected or (type(value) is int and value < 0):
            raise ValueError(f"{field.name} of {what} is {value!r}")


def _check_keys(what: str, found: Any, needed: set[str], known: set[str]) -> None:
    if not isinstance(found, dict):
        raise TypeError(f"{what} is {found!r}, which describes nothing")
    if missing := sorted(needed - set(found)):
        raise ValueError(f"{what} lacks {', '.join(missing)}")
    if unknown := sorted(set(found) - known):
        raise ValueError(f"{what} has {', '.join(unknown)}, which is unknown")
