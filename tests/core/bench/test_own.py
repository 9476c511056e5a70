"""This library in the bench answers as it does in a chat, and forgets when it is told to."""

from __future__ import annotations

import pytest

from medusa_core.bench.own import own_system
from medusa_core.chat import Chat
from medusa_core.config import OWN_SYSTEMS, DecodingConfig, SamplingAcceptance
from medusa_core.events import Finished, Source, Step

CONFIG = DecodingConfig(nodes=4, max_new_tokens=24)


def prompt(chat: Chat, text: str = "Tell me") -> list[int]:
    return chat.text.prompt_ids([{"role": "user", "content": text}])


@pytest.mark.parametrize("name", OWN_SYSTEMS)
def test_it_answers_as_the_chat_does(tiny_chat: Chat, name: str) -> None:
    *_, finished = tiny_chat.reply([{"role": "user", "content": "Tell me"}], CONFIG)
    assert isinstance(finished, Finished)
    system = own_system(name, tiny_chat, CONFIG)
    answer = system.answer(prompt(tiny_chat), 24)
    assert answer.token_ids == finished.token_ids
    assert answer.decoded == len(answer.token_ids)
    assert answer.steps == (answer.decoded if name == "plain" else answer.steps) <= answer.decoded
    assert answer.first_token_seconds > 0
    assert answer.decode_seconds > 0
    assert system.about["heads"] == "own"
    assert system.answer(prompt(tiny_chat), 5).token_ids == finished.token_ids[:5]


def test_each_name_drafts_from_its_own_sources(tiny_chat: Chat) -> None:
    for name, sources in {
        "ours": {Source.HEAD, Source.LOOKUP, Source.RECYCLING},
        "plain": set(),
        "medusa": {Source.HEAD},
        "lookup": {Source.LOOKUP},
        "recycling": {Source.RECYCLING},
    }.items():
        seen: set[Source] = set()
        system = own_system(name, tiny_chat, CONFIG)
        fresh = Chat(tiny_chat.backbone, tiny_chat.text, tiny_chat.checkpoint, tiny_chat.info)
        for event in fresh.reply([{"role": "user", "content": "abc abc abc abc"}], system.config):
            if isinstance(event, Step):
                seen |= {node.source for node in event.nodes[1:]}
        assert seen <= sources, name
        assert bool(seen) == bool(sources), name


def test_a_new_run_knows_nothing_of_the_one_before(tiny_chat: Chat) -> None:
    system = own_system("recycling", tiny_chat, CONFIG)
    first = system.answer(prompt(tiny_chat), 24)
    again = system.answer(prompt(tiny_chat), 24)
    assert again.steps < first.steps, "it has seen this very reply"
    system.begin_run()
    assert system.answer(prompt(tiny_chat), 24).steps == first.steps


def test_sampling_draws_what_plain_decoding_draws(tiny_chat: Chat) -> None:
    config = DecodingConfig(nodes=4, seed=3, acceptance=SamplingAcceptance(temperature=1.0))
    ours, plain = (own_system(name, tiny_chat, config).answer(prompt(tiny_chat), 24) for name in ("ours", "plain"))
    assert ours.token_ids == plain.token_ids
