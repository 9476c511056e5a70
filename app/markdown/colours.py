"""Code in colours: which kind of thing each piece of it is. Knows nothing of colours themselves, or of blocks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

LONGEST = 50_000  # characters; beyond, colours are not worth the wait


def highlight(language: str, code: str) -> tuple[tuple[str, str], ...]:
    """The code in pieces of (kind, text), the kind as Pygments names it: "Keyword", "Literal.String", … or "".

    Joined, the texts are the code, always: where the language is unknown, the code too long, or its lexer at fault, it
    is one piece of no kind.
    """
    plain = (("", code),) if code else ()
    lexer = _lexer(language.casefold()) if language and len(code) <= LONGEST else None
    if lexer is None:
        return plain
    try:
        # The lexer's usual entrance would change line ends, drop a byte-order mark and add a last line end.
        pieces = _merged(lexer.get_tokens_unprocessed(code))
    except Exception:  # noqa: BLE001  hundreds of lexers by as many authors; a faulty one must not take the reply down
        return plain
    return pieces if "".join(text for _, text in pieces) == code else plain


@lru_cache(maxsize=32)
def _lexer(language: str) -> Any:
    # Imported where it is used: its table of lexers is long, and most replies hold no code.
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped]
    from pygments.util import ClassNotFound  # type: ignore[import-untyped]

    try:
        return get_lexer_by_name(language)
    except ClassNotFound:
        return None


def _merged(tokens: Any) -> tuple[tuple[str, str], ...]:
    """Neighbours of the same kind as one."""
    pieces: list[tuple[str, list[str]]] = []
    for _, kind, text in tokens:
        name = str(kind).partition("Token.")[2]
        name = "" if name in ("Text", "Text.Whitespace", "Other", "Error") else name
        if pieces and pieces[-1][0] == name:
            pieces[-1][1].append(text)
        elif text:
            pieces.append((name, [text]))
    return tuple((name, "".join(texts)) for name, texts in pieces)
