"""A conversation over a tiny model: turns, reuse, and what happens when something breaks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.chat import Chat, open_folder
from medusa_core.config import (
    Acceptance,
    DecodingConfig,
    DrafterName,
    GreedyAcceptance,
    SamplingAcceptance,
    TypicalAcceptance,
)
from medusa_core.errors import NoChatTemplate, OutOfMemory
from medusa_core.events import Event, Finished, Prefilled, Source, Step, StopReason
from medusa_core.model_info import ChatMessage
from medusa_core.thinking import answer_of
from medusa_core.tiny import CHAT_TEMPLATE, save_tiny_model, save_untrained_heads
from medusa_core.tree import RankedTree, Tree

CONFIG = DecodingConfig(max_new_tokens=24)
TREE = RankedTree(Tree((0, 0, 0, 1)), (0, 0, 1, 0))


def opened(folder: Path, heads: Path | None = None) -> Chat:
    loading = open_folder(folder, heads, name="Tiny", heads_name="own", dtype="fp32", device="cpu")
    while True:
        try:
            next(loading)
        except StopIteration as finished:
            chat: Chat = finished.value
            return chat


def user(text: str) -> ChatMessage:
    return ChatMessage(role="user", content=text)


def finish(events: Iterator[Event]) -> Finished:
    *_, last = events
    assert isinstance(last, Finished)
    return last


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model") / "tiny", tied=True, seed=5)


@pytest.fixture
def chat(folder: Path) -> Chat:
    return opened(folder)


@pytest.fixture
def heads(folder: Path, tmp_path: Path) -> Path:
    return save_untrained_heads(tmp_path / "heads", opened(folder).backbone, TREE)


def test_text_spans_and_pieces_agree_with_the_tokens(chat: Chat) -> None:
    events = list(chat.reply([user("Tell me a story")], DecodingConfig(max_new_tokens=24, explain=True)))
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.text == chat.text.decode(finished.token_ids)
    steps = [event for event in events if isinstance(event, Step)]
    assert "".join(step.text for step in steps) + finished.tail == finished.text
    spans = [span for step in steps for span in step.spans]
    assert len(spans) == finished.tokens
    assert all(first[1] == second[0] for first, second in itertools.pairwise(spans))
    for step in steps:
        assert [node.text for node in step.nodes] == [chat.text.piece(node.token_id) for node in step.nodes]


def test_a_second_turn_reuses_the_first_and_answers_as_a_fresh_chat(chat: Chat, folder: Path) -> None:
    first = finish(chat.reply([user("Hello")], CONFIG))
    history = [user("Hello"), ChatMessage(role="assistant", content="Hi there"), user("And now?")]
    second = list(chat.reply(history, CONFIG))
    fresh = list(opened(folder).reply(history, CONFIG))
    assert isinstance(second[0], Prefilled)
    shared = chat.text.prompt_ids([user("Hello")])
    assert first.prompt_tokens == len(shared)
    assert second[0].reused_tokens >= len(shared)
    assert isinstance(fresh[0], Prefilled)
    assert fresh[0].reused_tokens == 0
    assert finish(iter(second)).token_ids == finish(iter(fresh)).token_ids


@pytest.mark.parametrize(("opens", "tag"), [("", ""), ("<think>\n", "think")])
def test_a_reply_is_told_without_its_thinking_and_what_was_kept_of_it_is_let_go(
    folder: Path, opens: str, tag: str
) -> None:
    """The prompt of the next turn parts from the cache where the thinking began."""
    chat, fresh = opened_with(folder, opens), opened_with(folder, opens)
    written = chat.reply_ids(f"{'' if tag else '<think>'}So,</think>Yes")
    first = list(chat.reply([user("Hi")], DecodingConfig(max_new_tokens=4), written=written))
    assert isinstance(first[0], Prefilled)
    assert first[0].opened == tag
    said = answer_of(finish(iter(first)).text, tag)
    assert said.startswith("Yes")
    history = [user("Hi"), ChatMessage(role="assistant", content=said), user("And?")]
    second, other = list(chat.reply(history, CONFIG)), list(fresh.reply(history, CONFIG))
    assert isinstance(second[0], Prefilled)
    assert second[0].reused_tokens == len(chat.text.prompt_ids([user("Hi")])) - len(chat.reply_ids(opens))
    assert finish(iter(second)).token_ids == finish(iter(other)).token_ids


def opened_with(folder: Path, opens: str) -> Chat:
    """A chat whose template has each reply begin after these characters."""
    chat = opened(folder)
    chat.text.use_template(CHAT_TEMPLATE.replace("<|assistant|>{%", f"<|assistant|>{opens}{{%"))
    return chat


@pytest.mark.parametrize("acceptance", [GreedyAcceptance(), SamplingAcceptance(temperature=1.3)])
@pytest.mark.parametrize("place", [1, 7, 13])
def test_a_reply_goes_on_from_what_is_written_as_if_it_had_never_stopped(
    chat: Chat, acceptance: Acceptance, place: int
) -> None:
    config = DecodingConfig(acceptance=acceptance, max_new_tokens=24, seed=3)
    whole = finish(chat.reply([user("Tell me")], config))
    written = whole.token_ids[:place]
    config = replace(config, max_new_tokens=24 - place)
    prefilled, *steps, finished = list(chat.reply([user("Tell me")], config, written=written))
    assert isinstance(prefilled, Prefilled)
    assert isinstance(finished, Finished)
    assert prefilled.prompt_tokens == whole.prompt_tokens + place
    assert finished.token_ids == whole.token_ids
    assert finished.tokens == whole.tokens - place
    assert whole.text.startswith(prefilled.text.rstrip("\ufffd"))
    texts = [step.text for step in steps if isinstance(step, Step)]
    assert prefilled.text + "".join(texts) + finished.tail == finished.text == whole.text
    spans = [span for step in steps if isinstance(step, Step) for span in step.spans]
    assert spans[0][0] == len(prefilled.text)
    assert all(first[1] == second[0] for first, second in itertools.pairwise(spans))


def test_tokens_nobody_drew_can_be_written_too(chat: Chat) -> None:
    """A person may choose another word than the model did, and a text may have to be made into tokens again."""
    whole = finish(chat.reply([user("Tell me")], CONFIG))
    other = (*whole.token_ids[:3], *chat.reply_ids("Zoo"))
    finished = finish(chat.reply([user("Tell me")], CONFIG, written=other))
    assert finished.token_ids[: len(other)] == other
    assert finished.text.startswith(chat.text.decode(other).rstrip("\ufffd"))
    assert chat.text.decode(chat.reply_ids("Once upon a time")) == "Once upon a time"


def test_what_is_written_is_given_back_whole_even_where_it_may_go_on(chat: Chat) -> None:
    text = "so \U0001f468\u200d"  # half an emoji sequence, which is held back while a reply is being written
    prefilled = next(iter(chat.reply([user("Hi")], CONFIG, written=chat.reply_ids(text))))
    assert isinstance(prefilled, Prefilled)
    assert prefilled.text == text


def test_a_written_reply_that_fills_the_context_is_kept(chat: Chat) -> None:
    written = chat.reply_ids("a" * 400)
    finished = finish(chat.reply([user("Hi")], CONFIG, written=written))
    assert (finished.reason, finished.tokens) == (StopReason.CONTEXT_FULL, 0)
    assert finished.token_ids == tuple(written)


def test_the_same_message_again_gives_the_same_reply(chat: Chat) -> None:
    first, second = (finish(chat.reply([user("Again")], CONFIG)) for _ in range(2))
    assert first.token_ids == second.token_ids


@pytest.mark.parametrize("accept", ["greedy", "typical"])
def test_heads_are_used_where_asked_for(folder: Path, heads: Path, accept: str) -> None:
    chat = opened(folder, heads)
    assert (chat.info.num_heads, chat.info.heads_name, chat.info.heads_problem) == (2, "own", "")
    config = DecodingConfig(max_new_tokens=12, drafter="medusa", tree="ranked")
    if accept == "typical":
        config = replace(config, acceptance=TypicalAcceptance(epsilon=0.0, delta=0.0))
    drafted = list(chat.reply([user("Hi")], config))
    plain = list(chat.reply([user("Hi")], DecodingConfig(max_new_tokens=12, drafter="none")))
    assert {len(event.nodes) for event in drafted if isinstance(event, Step)} == {4}
    assert {len(event.nodes) for event in plain if isinstance(event, Step)} == {1}
    if accept == "greedy":
        assert finish(iter(drafted)).token_ids == finish(iter(plain)).token_ids
    else:
        assert finish(iter(drafted)).steps < 12  # with threshold 0 every path passes


def test_sampling_draws_by_the_seed_whatever_is_drafted(folder: Path, heads: Path) -> None:
    chat, alone = opened(folder, heads), opened(folder)
    config = DecodingConfig(acceptance=SamplingAcceptance(temperature=1.2), max_new_tokens=16, seed=1, explain=True)
    events = list(chat.reply([user("Hi")], config))
    drafted = finish(iter(events)).token_ids
    assert drafted == finish(chat.reply([user("Hi")], config)).token_ids
    assert drafted == finish(alone.reply([user("Hi")], config)).token_ids
    assert drafted != finish(alone.reply([user("Hi")], replace(config, seed=2))).token_ids
    judged = [node for event in events if isinstance(event, Step) for node in event.nodes if node.verdict is not None]
    assert judged
    for node in judged:
        assert node.verdict is not None
        assert node.verdict.drawn is not None
        assert node.verdict.drawn_text == chat.text.piece(node.verdict.drawn)
        assert node.verdict.passed == (node.token_id == node.verdict.drawn)
        assert node.model_probability == node.verdict.probability


@pytest.mark.parametrize("drafter", ["auto", "hybrid", "lookup", "recycling"])
def test_without_heads_something_is_drafted_all_the_same(chat: Chat, drafter: DrafterName) -> None:
    plain = finish(chat.reply([user("Again")], DecodingConfig(max_new_tokens=24, drafter="none")))
    drafted = list(chat.reply([user("Again")], DecodingConfig(max_new_tokens=24, drafter=drafter)))
    assert finish(iter(drafted)).token_ids == plain.token_ids
    sources = {node.source for event in drafted if isinstance(event, Step) for node in event.nodes}
    assert sources & {Source.LOOKUP, Source.RECYCLING}
    assert Source.HEAD not in sources


def test_broken_heads_are_said_and_the_reply_still_comes(folder: Path, heads: Path) -> None:
    (heads / "heads.safetensors").write_bytes(b"broken")
    chat = opened(folder, heads)
    assert (chat.info.num_heads, chat.info.heads_name) == (0, "none")
    assert "heads.safetensors is damaged" in chat.info.heads_problem
    assert finish(chat.reply([user("Hi")], CONFIG)).tokens > 0


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (MemoryError(), OutOfMemory),
        (torch.OutOfMemoryError("CUDA out of memory"), OutOfMemory),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"), OutOfMemory),
        (RuntimeError("shapes differ"), RuntimeError),
        (KeyError("x"), KeyError),
    ],
)
def test_a_failure_in_the_middle_leaves_the_chat_usable(
    chat: Chat, monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception]
) -> None:
    expected = finish(chat.reply([user("Hello")], CONFIG)).token_ids
    backbone: Any = chat.backbone
    passes = 0

    def failing(*arguments: Any) -> torch.Tensor:
        nonlocal passes
        passes += 1
        hidden = LeanBackbone.forward(backbone, *arguments)
        if passes == 4:
            raise error  # rows are written, but nobody has committed them
        return hidden

    with monkeypatch.context() as patch:
        patch.setattr(backbone, "forward", failing, raising=False)
        with pytest.raises(raised) as caught:
            list(chat.reply([user("Hello")], CONFIG))
    assert type(caught.value) is raised
    again = list(chat.reply([user("Hello")], CONFIG))
    assert isinstance(again[0], Prefilled)
    assert again[0].reused_tokens == 0
    assert finish(iter(again)).token_ids == expected


def test_an_abandoned_reply_leaves_the_chat_usable(chat: Chat, folder: Path) -> None:
    reply = chat.reply([user("Hello")], CONFIG)
    for _ in range(5):
        next(reply)
    reply.close()  # type: ignore[attr-defined]
    expected = finish(opened(folder).reply([user("Something else")], CONFIG)).token_ids
    assert finish(chat.reply([user("Something else")], CONFIG)).token_ids == expected


def test_a_conversation_that_fills_the_context_ends_with_a_message(chat: Chat) -> None:
    finished = finish(chat.reply([user("a" * 240)], DecodingConfig(max_new_tokens=500)))
    assert finished.reason in (StopReason.CONTEXT_FULL, StopReason.STOP)
    too_long = finish(chat.reply([user("a" * 400)], CONFIG))
    assert (too_long.reason, too_long.tokens, too_long.text) == (StopReason.CONTEXT_FULL, 0, "")
    assert "new chat" in too_long.message


def test_a_model_without_a_chat_template_says_so(folder: Path) -> None:
    chat = opened(folder)
    chat.text._tokenizer.chat_template = None
    with pytest.raises(NoChatTemplate, match="no chat template"):
        next(iter(chat.reply([user("Hi")], CONFIG)))


def test_tokens_are_weighed_as_the_model_itself_would_after_that_beginning(chat: Chat) -> None:
    messages = [user("hello")]
    ids = finish(chat.reply(messages, CONFIG)).token_ids
    everything = chat.weigh(messages, ids[:7], range(chat.backbone.spec.vocab_size))
    best = max(everything, key=lambda weight: weight.logit)
    assert best.token_id == ids[7]  # greedy
    assert sum(weight.probability for weight in everything) == pytest.approx(1.0, abs=1e-4)
    assert finish(chat.reply(messages, CONFIG)).token_ids == ids  # it left the conversation alone
