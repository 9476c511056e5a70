"""Names and addresses of pages mean the same repository, revision and file."""

from __future__ import annotations

import pytest

from medusa_core.errors import LibraryError
from medusa_core.hub.address import Address, read_address

HUB, MIRROR, BELOW = "https://huggingface.co", "https://mirror.example:8443", "https://mirror.example/hub/"


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("Org/Name", Address("Org/Name")),
        (" Org/Name ", Address("Org/Name")),
        ("Org/Name/", Address("Org/Name")),
        ("Org/Name@v1.0", Address("Org/Name", "v1.0")),
        ("Org/Name@refs/pr/1", Address("Org/Name", "refs/pr/1")),
        ("Org/Name@", Address("Org/Name")),
        ("nonsense", Address("nonsense")),  # said where it is used
        ("../../etc", Address("../../etc")),
        ("[Org/Name", Address("[Org/Name")),
        ("Org.co/Name", Address("Org.co/Name")),
        ("https://huggingface.co/Org/Name", Address("Org/Name")),
        ("http://www.huggingface.co/Org/Name/", Address("Org/Name")),
        ("huggingface.co/Org/Name", Address("Org/Name")),
        ("HuggingFace.co/Org/Name?library=transformers#use", Address("Org/Name")),
        ("https://hf.co/Org/Name", Address("Org/Name")),
        ("hf.co/Org/Name", Address("Org/Name")),
        ("hf.co/Org/Name@v2", Address("Org/Name", "v2")),
        ("https://huggingface.co/Org/Name/tree/main", Address("Org/Name")),
        ("https://huggingface.co/Org/Name/tree/v2/folder", Address("Org/Name", "v2")),
        ("https://huggingface.co/Org/Name/tree/refs%2Fpr%2F1", Address("Org/Name", "refs/pr/1")),
        ("https://huggingface.co/Org/Name/tree/refs/pr/1", Address("Org/Name", "refs/pr/1")),
        ("https://huggingface.co/Org/Name/commit/c0ffee", Address("Org/Name", "c0ffee")),
        ("https://huggingface.co/Org/Name/discussions/3", Address("Org/Name")),
        ("https://huggingface.co/Org/Name/blob/main/X-Q4_K_M.gguf", Address("Org/Name", "main", "X-Q4_K_M.gguf")),
        ("https://huggingface.co/Org/Name/blob/v2/Q4/X%20Y.GGUF", Address("Org/Name", "v2", "Q4/X Y.GGUF")),
        ("https://huggingface.co/Org/Name/resolve/main/X.gguf?download=true", Address("Org/Name", "main", "X.gguf")),
        ("https://huggingface.co/Org/Name/blob/refs%2Fpr%2F1/X.gguf", Address("Org/Name", "refs/pr/1", "X.gguf")),
        ("https://huggingface.co/Org/Name?show_file_info=X.gguf", Address("Org/Name", "main", "X.gguf")),
        ("https://huggingface.co/Org/Name/blob/main/config.json", Address("Org/Name")),
        ("https://huggingface.co/Org/Name/blob/main/..%2F..%2FX.gguf", Address("Org/Name")),
    ],
)
def test_what_a_text_means(text: str, meant: Address) -> None:
    assert read_address(text, HUB) == meant


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [
        (MIRROR, "https://mirror.example:8443/Org/Name/tree/v2"),
        (MIRROR, "mirror.example:8443/Org/Name/tree/v2"),
        (MIRROR, "https://huggingface.co/Org/Name/tree/v2"),
        (BELOW, "https://mirror.example/hub/Org/Name/tree/v2"),
    ],
)
def test_a_mirrors_pages_count_too(endpoint: str, text: str) -> None:
    assert read_address(text, endpoint) == Address("Org/Name", "v2")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("https://huggingface.co/datasets/Org/Name", "is the page of a data set"),
        ("https://huggingface.co/spaces/Org/Name", "is the page of a space"),
        ("https://huggingface.co/Org", "is no model's page; such pages are at https://huggingface.co/ORG/NAME"),
        ("https://huggingface.co", "is no model's page"),
        ("https://elsewhere.example/Org/Name", r"is no page of the Hub \(huggingface\.co\)"),
        ("https://huggingface.co.evil.example/Org/Name", "is no page of the Hub"),
        ("ftp://huggingface.co/Org/Name", "is no page of the Hub"),
    ],
)
def test_addresses_of_other_things_are_named(text: str, words: str) -> None:
    with pytest.raises(LibraryError, match=words):
        read_address(text, HUB)
