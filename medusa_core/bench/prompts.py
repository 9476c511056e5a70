"""From prompts of a file to what every system gets: the same token ids, in the model's own chat template.

Knows nothing of who answers.
"""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.bench.records import BenchPrompt
from medusa_core.errors import ConfigError
from medusa_core.prompt_file import FilePrompt
from medusa_core.text import ChatText


def bench_prompts(
    file: Sequence[FilePrompt], text: ChatText, *, limit: int, max_new_tokens: int, context_size: int
) -> list[BenchPrompt]:
    """The first `limit` prompts (0: all), each up to its first turn's end; a prompt without a name gets its number.

    Raises ConfigError where a prompt and its reply do not fit into the context, or two prompts have one name.
    """
    prompts = []
    for number, prompt in enumerate(file[: limit or None], 1):
        ids = tuple(text.prompt_ids(prompt.messages))
        name = prompt.name or str(number)
        if len(ids) + max_new_tokens > context_size:
            raise ConfigError(
                f"Prompt {name} has {len(ids)} tokens; with {max_new_tokens} new ones it exceeds the model's "
                f"context of {context_size}. Leave it out, or lower --max-new-tokens."
            )
        prompts.append(BenchPrompt(name, prompt.category, prompt.messages, ids))
    names = [prompt.name for prompt in prompts]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"Two prompts are called {', '.join(twice)}; give every prompt an id of its own.")
    return prompts
