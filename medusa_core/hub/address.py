"""What a person writes for something on the Hub: ORG/NAME, ORG/NAME@REVISION, or the address of one of its pages.

Nothing is asked of the network. Whether the name can be one is said where it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from medusa_core.errors import LibraryError
from medusa_core.hub.listing import is_gguf_name

MAIN = "main"

_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co", "www.hf.co")
_OTHERS = {"datasets": "a data set", "spaces": "a space", "papers": "a paper", "collections": "a collection"}
_WITH_REVISION = ("tree", "blob", "resolve", "raw", "blame", "commits", "commit")
_SHOWN = "show_file_info"  # of a page on which one file's contents are looked at


@dataclass(frozen=True, slots=True)
class Address:
    """Something on the Hub."""

    repo: str
    revision: str = MAIN
    file: str = ""  # the one GGUF file that is meant; "" where none is


def read_address(text: str, endpoint: str) -> Address:
    """What `text` means; `endpoint`: the Hub, or its mirror, whose pages count too.

    Raises LibraryError for an address that is none of a model's.
    """
    text = text.strip()
    path, query = _path(text, endpoint)
    if path is None:
        name, _, revision = text.partition("@")
        return Address(name.strip().strip("/"), revision.strip() or MAIN)
    parts = [unquote(part) for part in path.split("/") if part]
    if parts and parts[0] in _OTHERS:
        raise LibraryError(
            f"{text} is the page of {_OTHERS[parts[0]]}, and no model's. Give a model's page, or ORG/NAME."
        )
    if parts[:1] == ["models"]:
        parts = parts[1:]
    if len(parts) < 2:
        raise LibraryError(f"{text} is no model's page; such pages are at {endpoint.rstrip('/')}/ORG/NAME.")
    name, _, revision = parts[1].partition("@")
    shown = parse_qs(query).get(_SHOWN, [""])[0]
    file = shown if is_gguf_name(shown) else ""
    if len(parts) > 3 and parts[2] in _WITH_REVISION:
        revision, below = _revision(parts[3:])
        file = below if is_gguf_name(below) else file
    return Address(f"{parts[0]}/{name}", revision or MAIN, file)


def _path(text: str, endpoint: str) -> tuple[str | None, str]:
    """The path of an address on the Hub and its query; None for a text that is no address."""
    hub = urlsplit(endpoint)
    try:
        address = urlsplit(text if "://" in text else f"https://{text}")
    except ValueError:  # brackets that are no IPv6 address
        return None, ""
    if address.scheme not in ("http", "https"):
        raise LibraryError(f"{text} is no page of the Hub; give ORG/NAME, or the address of a model's page there.")
    if address.netloc == hub.netloc:
        below = hub.path.rstrip("/")
        if address.path.startswith(f"{below}/"):
            return address.path.removeprefix(below), address.query
    if address.netloc.lower() in _HOSTS:
        return address.path, address.query
    if "://" in text:
        raise LibraryError(
            f"{text} is no page of the Hub ({hub.netloc}); give ORG/NAME, or the address of a model's page there."
        )
    return None, ""


def _revision(parts: list[str]) -> tuple[str, str]:
    """The revision at the beginning, and the file after it. Of names with a slash in them the Hub's own are known."""
    long = 3 if parts[0] == "refs" and len(parts) > 2 else 1
    return "/".join(parts[:long]), "/".join(parts[long:])
