"""From a prompt file to token ids, and the project's own prompts."""

from __future__ import annotations

import pytest

from medusa_core import hub
from medusa_core.bench.prompts import bench_prompts
from medusa_core.errors import ConfigError
from medusa_core.prompt_file import FilePrompt, read_prompts
from medusa_core.text import ChatText
from medusa_core.tiny import END_ID, tiny_tokenizer

TEXT = ChatText(tiny_tokenizer(), [END_ID])


def ask(text: str, name: str = "") -> FilePrompt:
    return FilePrompt(({"role": "user", "content": text},), "a second turn", name, "odd")


def test_every_system_gets_the_same_ids() -> None:
    first, second = bench_prompts([ask("Hi"), ask("Ho", "x")], TEXT, limit=0, max_new_tokens=8, context_size=64)
    assert (first.name, second.name, second.category) == ("1", "x", "odd")
    assert list(first.token_ids) == TEXT.prompt_ids([{"role": "user", "content": "Hi"}])
    only = bench_prompts([ask("Hi"), ask("Ho")], TEXT, limit=1, max_new_tokens=8, context_size=64)
    assert len(only) == 1


def test_what_does_not_fit_or_is_there_twice_is_said() -> None:
    with pytest.raises(ConfigError, match=r"Prompt long has \d+ tokens; with 8 new ones it exceeds .* 64"):
        bench_prompts([ask("a" * 60, "long")], TEXT, limit=0, max_new_tokens=8, context_size=64)
    with pytest.raises(ConfigError, match="Two prompts are called a"):
        bench_prompts([ask("x", "a"), ask("y", "a")], TEXT, limit=0, max_new_tokens=8, context_size=64)


def test_the_projects_own_prompts() -> None:
    prompts = read_prompts(hub.resources_folder() / "bench_prompts.jsonl")
    assert len({prompt.name for prompt in prompts}) == len(prompts) == 16
    assert all(prompt.category for prompt in prompts)
