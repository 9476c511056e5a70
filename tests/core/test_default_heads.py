"""The heads that ship: they fit the default model, are small enough, change nothing in greedy replies, and pay."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core import hub
from medusa_core.chat import Chat, open_folder
from medusa_core.config import DecodingConfig, TypicalAcceptance
from medusa_core.events import Finished, Step
from medusa_core.model_info import ChatMessage

PROMPTS = ("Name three colours and say where each is found in nature.", "How do I boil an egg?")


@pytest.fixture(scope="module", params=[hub.DEFAULT, hub.PAPER])
def chat(request: pytest.FixtureRequest, default_model_folder: Path) -> Chat:
    loading = open_folder(
        default_model_folder,
        hub.heads_folder(request.param),
        name=hub.DEFAULT_MODEL_NAME,
        heads_name=request.param,
        dtype="fp32",
        device="cpu",
    )
    while True:
        try:
            next(loading)
        except StopIteration as end:
            made: Chat = end.value
            return made


def ask(chat: Chat, prompt: str, config: DecodingConfig) -> tuple[list[Step], Finished]:
    events = list(chat.reply([ChatMessage(role="user", content=prompt)], config))
    finished = events[-1]
    assert isinstance(finished, Finished)
    return [event for event in events if isinstance(event, Step)], finished


def test_they_fit_the_default_model(chat: Chat) -> None:
    assert chat.info.heads_problem == ""
    assert chat.info.num_heads == 4
    assert chat.checkpoint is not None
    assert chat.checkpoint.heads.kind == ("medusa" if chat.info.heads_name == hub.PAPER else "rooted")
    assert len(chat.checkpoint.tree.tree) > 16
    assert chat.checkpoint.base.name == hub.DEFAULT_MODEL_NAME
    assert chat.checkpoint.statistics is not None
    assert chat.checkpoint.statistics.together.steps > 50_000
    assert chat.checkpoint.pairs is not None


@pytest.mark.parametrize(("name", "most"), [(hub.DEFAULT, 19_000_000), (hub.PAPER, 42_000_000)])
def test_the_shipped_files_are_small_enough(name: str, most: int) -> None:
    folder = hub.resources_folder() / "heads" / name
    assert sum(path.stat().st_size for path in folder.iterdir()) < most


@pytest.mark.parametrize("tree", ["ranked", "grown"])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_replies_are_the_models_own_in_fewer_steps(chat: Chat, prompt: str, tree: str) -> None:
    _, plain = ask(chat, prompt, DecodingConfig(max_new_tokens=40, drafter="none"))
    steps, drafted = ask(chat, prompt, DecodingConfig(max_new_tokens=40, drafter="medusa", nodes=16, tree=tree))
    assert drafted.token_ids == plain.token_ids
    assert drafted.text == plain.text
    assert plain.steps == plain.tokens
    assert drafted.tokens_per_step > 1.3
    assert max(len(step.nodes) for step in steps) == 17  # the root and 16 guesses


def test_typical_acceptance_keeps_what_its_threshold_allows(chat: Chat) -> None:
    config = DecodingConfig(acceptance=TypicalAcceptance(), drafter="medusa", nodes=16, max_new_tokens=40)
    steps, finished = ask(chat, PROMPTS[0], config)
    assert finished.tokens_per_step > 1.3
    for step in steps:
        for node in step.path[1:]:
            verdict = step.nodes[node].verdict
            assert verdict is not None
            assert verdict.probability is not None
            assert verdict.threshold is not None
            assert verdict.probability > verdict.threshold
