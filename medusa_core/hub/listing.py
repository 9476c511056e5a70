"""Which files of a model are needed: configuration, tokenizer, weights once, licence and card; nothing else is fetched.

The same choice is made for a repository on the Hub and for a folder that is imported. Knows nothing of connections.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from medusa_core.errors import FileNotChosen, HubError, LibraryError, NotOnHub

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo, RepoSibling

Kind = Literal["model", "heads", "gguf"]

_ALWAYS = re.compile(
    r"(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|chat_template)\.json"
    r"|(tree|statistics)\.json"  # of heads, in whatever format these are
    r"|merges\.txt|vocab\.txt|.*\.model|tekken\.json|chat_template\.jinja"
    r"|README\.md|(LICEN[SC]E|NOTICE|USE_POLICY)[^/]*",
    re.IGNORECASE,
)
_PLAIN_WEIGHTS = re.compile(r"model(-\d+-of-\d+)?\.safetensors(\.index\.json)?")
_OTHER_WEIGHTS = re.compile(
    r"(?!consolidated|adapter_|int8-calibration|medusa_lm_head|heads\b|pairs\b).*\.safetensors(\.index\.json)?"
)
_PICKLED_WEIGHTS = re.compile(r"pytorch_model(-\d+-of-\d+)?\.bin(\.index\.json)?")
_HEADS = re.compile(r"medusa_lm_head\.safetensors|heads\.safetensors|pairs\.safetensors")
_PICKLED_HEADS = re.compile(r"medusa_lm_head\.pt")
_TELLING = re.compile(r"medusa_lm_head\.(safetensors|pt)")  # heads, whatever stands beside them, and if nothing does
_ADAPTERS = re.compile(r"adapters/adapter_(config\.json|model\.safetensors)")  # of heads trained with their model
# In this order: the first kind whose files are there is what the folder is.
_WEIGHTS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("model", _PLAIN_WEIGHTS),
    ("heads", _HEADS),
    ("model", _OTHER_WEIGHTS),
    ("model", _PICKLED_WEIGHTS),
    ("heads", _PICKLED_HEADS),
)
_SPLIT_GGUF = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_NAME = re.compile(r"[A-Za-z0-9][\w. +-]*")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file on the Hub, and how to know it when it has arrived."""

    name: str
    size: int
    sha256: str  # "" for a file that git keeps itself
    git_sha1: str  # of the file as a git blob; "" where it is not known

    @property
    def key(self) -> str:
        """The same for the same content."""
        return self.sha256 or self.git_sha1


@dataclass(frozen=True, slots=True)
class Listing:
    """What is to be fetched of one commit of a repository."""

    repo: str
    revision: str
    commit: str
    kind: Kind
    licence: str
    parameters: int  # as the Hub counts them; 0 where it does not
    files: tuple[RemoteFile, ...]  # small ones first

    @property
    def size(self) -> int:
        """Bytes, all together."""
        return sum(file.size for file in self.files)


def is_repo_id(name: str) -> bool:
    """Whether a name has the form ORG/NAME that the Hub uses."""
    if not _REPO.fullmatch(name):
        return False
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return True


def check_repo_id(name: str) -> None:
    """Raises LibraryError for a name that no model on the Hub can have."""
    if not is_repo_id(name):
        raise LibraryError(
            f"{name!r} is no name of a model on the Hub; such names look like HuggingFaceTB/SmolLM2-360M-Instruct."
        )


def is_library_name(name: str) -> bool:
    """Whether a folder of the library may be called so: NAME, or ORG/NAME; nothing that leads out of it."""
    parts = name.split("/")
    return len(parts) <= 2 and all(_NAME.fullmatch(part) and ".." not in part for part in parts)


def make_listing(info: ModelInfo, repo: str, revision: str, gguf: str = "") -> Listing:
    """The files to fetch of what the Hub says of a model; `gguf`: only this file of those in GGUF form.

    Raises NotOnHub where nothing there can be used, HubError for an answer that makes no sense.
    """
    siblings = {sibling.rfilename: sibling for sibling in info.siblings or []}
    if not info.sha or not re.fullmatch(r"[0-9a-fA-F]{6,64}", info.sha):
        raise HubError(f"The Hub names no commit for {repo}, so its files cannot be told from later ones.")
    kind, names = _choose_remote(repo, siblings, gguf)
    if kind == "model" and (info.config or {}).get("model_type") == "medusa":
        kind = "heads"  # in vLLM's form, whose weights are called as a model's
    files = [_remote_file(repo, siblings[name]) for name in names]
    return Listing(
        repo=repo,
        revision=revision,
        commit=info.sha,
        kind=kind,
        licence=_licence(info),
        parameters=_parameters(info, kind),
        files=tuple(sorted(files, key=lambda file: (is_weights(file.name), file.name))),
    )


def is_weights(name: str) -> bool:
    """Whether a file holds weights."""
    return name.lower().endswith((".safetensors", ".bin", ".pt", ".gguf"))


def is_file_name(name: str) -> bool:
    """Whether a file of a model may be called so: no folders, but for the adapters' own."""
    return bool(_ADAPTERS.fullmatch(name)) or ("/" not in name and _leads_nowhere(name))


def is_gguf_name(name: str) -> bool:
    """Whether this is a GGUF file of a repository, in a folder or not; nothing that leads out of it."""
    return name.lower().endswith(".gguf") and all(map(_leads_nowhere, name.split("/")))


def _leads_nowhere(part: str) -> bool:
    """Neither hidden, nor up, nor to another disk."""
    return part != "" and not part.startswith(".") and "\\" not in part and ":" not in part


def names_heads(name: str) -> bool:
    """Whether a file of this name holds published heads."""
    return bool(_TELLING.fullmatch(name))


def choose_files(names: Iterable[str]) -> tuple[Kind, list[str]] | None:
    """The kind of a folder with these files, and which are needed; None where they make no model and no heads.

    Pickled weights are taken only where there are no others.
    """
    allowed = sorted(filter(is_file_name, names))
    small = [name for name in allowed if _ALWAYS.fullmatch(name)]
    for kind, pattern in _WEIGHTS:
        weights = [name for name in allowed if pattern.fullmatch(name)]
        whole = "config.json" in small or any(map(names_heads, weights))
        if any(is_weights(name) for name in weights) and whole:
            adapters = [name for name in allowed if kind == "heads" and _ADAPTERS.fullmatch(name)]
            return kind, [*small, *weights, *adapters]
    return None


def _choose_remote(repo: str, names: Mapping[str, RepoSibling], gguf: str) -> tuple[Kind, list[str]]:
    offered = sorted(filter(is_gguf_name, names))
    if gguf:
        if gguf not in offered:
            raise NotOnHub(f"{repo} has no file {gguf!r}. GGUF files there: {', '.join(offered) or 'none'}.")
        if _SPLIT_GGUF.search(gguf):
            raise LibraryError(f"{gguf} is one part of several, which cannot be read; choose a file that is whole.")
        return "gguf", [gguf, *(name for name in names if name == "README.md" or name.startswith("LICENSE"))]
    chosen = choose_files(names)
    if chosen is not None:
        return chosen
    if offered:
        whole = {name: names[name].size or 0 for name in offered if not _SPLIT_GGUF.search(name)}
        if not whole:
            raise NotOnHub(f"{repo} holds only GGUF files that are split into several, which cannot be read.")
        raise FileNotChosen(f"{repo} holds GGUF files only; choose one of them: {', '.join(whole)}.", whole)
    raise NotOnHub(
        f"{repo} holds no model that can be used: it needs config.json and weights in *.safetensors or "
        f"pytorch_model*.bin, or a .gguf file. There are {', '.join(sorted(names)[:8]) or 'no files'}."
    )


def _remote_file(repo: str, sibling: RepoSibling) -> RemoteFile:
    sha256 = sibling.lfs.sha256 if sibling.lfs else ""
    size = sibling.lfs.size if sibling.lfs else sibling.size
    blob = "" if sibling.lfs else sibling.blob_id or ""
    if size is None or size < 0 or not (sha256 or blob):
        raise HubError(
            f"The Hub gives no size or no checksum for {sibling.rfilename} of {repo}, so it cannot be verified. "
            "A mirror may leave them out: check HF_ENDPOINT."
        )
    return RemoteFile(sibling.rfilename, size, sha256.lower(), blob.lower())


def _parameters(info: ModelInfo, kind: Kind) -> int:
    if kind == "gguf":
        total = (info.gguf or {}).get("total", 0)
        return total if isinstance(total, int) else 0
    return info.safetensors.total if info.safetensors else 0


def _licence(info: ModelInfo) -> str:
    card = info.card_data
    licence = getattr(card, "license", None) if card is not None else None
    if licence in (None, "other"):
        licence = getattr(card, "license_name", None) or licence
    if not licence:
        tags = (tag.removeprefix("license:") for tag in info.tags or [] if tag.startswith("license:"))
        licence = next(tags, "")
    return licence if isinstance(licence, str) else ""
