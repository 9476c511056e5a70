"""Replies that the model writes itself: exactly its own, whoever else is in the batch, and none twice or lost."""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from medusa_core.acceptance.greedy import GreedyRule
from medusa_core.backbone.lean import LeanBackbone
from medusa_core.backbone.load import make_spec
from medusa_core.config import DistillConfig
from medusa_core.drafters.none import NoDrafter
from medusa_core.engine import Engine
from medusa_core.errors import ConfigError, DiskFull, NoChatTemplate, OutOfMemory, TrainingError
from medusa_core.events import Finished
from medusa_core.prompt_file import FilePrompt
from medusa_core.state import State
from medusa_core.text import ChatText
from medusa_core.tiny import END_ID, tiny_model, tiny_tokenizer
from medusa_core.train import distill as room
from medusa_core.train.distill import distill
from medusa_core.train.plan import plan
from medusa_core.train.shards import Reply, read_shards

SMALL = DistillConfig(
    tokens=300,
    self_written=0.0,
    multi_turn=0.0,
    temperatures=(0.0,),
    max_prompt_tokens=1600,
    max_reply_tokens=30,
    places=5,
)


def options(**changes: Any) -> DistillConfig:
    values = {name: getattr(SMALL, name) for name in DistillConfig.__dataclass_fields__}
    return DistillConfig(**{**values, **changes})


def write(backbone: LeanBackbone, text: ChatText, folder: Path, config: DistillConfig) -> dict[int, Reply]:
    list(distill(backbone, text, folder, config))
    return {reply.job: reply for reply in read_shards(folder)}


def test_replies_are_the_engines_own_greedy_decoding(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    replies = write(backbone, text, tmp_path, SMALL)
    engine = Engine(backbone, NoDrafter(), GreedyRule(explain=False), stop_ids=text.stop_ids, max_new_tokens=30)
    ended = 0
    for reply in replies.values():
        finished = list(engine.generate(State(backbone.new_cache()), reply.prompt_ids))[-1]
        assert isinstance(finished, Finished)
        if reply.token_ids[-1] in text.stop_ids:
            ended += 1
            assert tuple(reply.token_ids[:-1]) == finished.token_ids
        else:
            assert tuple(reply.token_ids) == finished.token_ids
    assert 0 < ended < len(replies), "the test needs replies of both ends"
    assert len({len(reply.token_ids) for reply in replies.values()}) > 3


def test_each_token_has_the_state_it_was_chosen_from(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    for reply in write(backbone, text, tmp_path, options(temperatures=(0.0, 0.7))).values():
        ids = torch.tensor(reply.prompt_ids + reply.token_ids)
        states = backbone.forward(ids, torch.arange(len(ids)), None, backbone.new_cache())
        chosen_from = states[len(reply.prompt_ids) - 1 : -1]
        torch.testing.assert_close(reply.hidden.float(), chosen_from, rtol=1e-2, atol=1e-2)


def test_neighbours_change_nothing(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    mixed = {"temperatures": (0.0, 0.9), "self_written": 0.3}
    alone = write(backbone, text, tmp_path / "alone", options(places=1, **mixed))
    together = write(backbone, text, tmp_path / "together", options(places=7, **mixed))
    both = alone.keys() & together.keys()
    assert len(both) > 8
    assert {job: (alone[job].prompt_ids, alone[job].token_ids) for job in both} == {
        job: (together[job].prompt_ids, together[job].token_ids) for job in both
    }


def test_warm_replies_differ_from_greedy_ones(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    cold = write(backbone, text, tmp_path / "cold", SMALL)
    warm = write(backbone, text, tmp_path / "warm", options(temperatures=(1.5,)))
    both = cold.keys() & warm.keys()
    assert sum(cold[job].token_ids != warm[job].token_ids for job in both) > len(both) / 2


def test_draws_follow_the_probabilities(backbone: LeanBackbone, text: ChatText) -> None:
    batch = room._Batch(backbone, text, options(places=400, temperatures=(1.0,)), set())
    jobs = room._jobs(text, plan(options(temperatures=(1.0,))), {}, seed=1)
    batch._jobs = [next(jobs) for _ in range(400)]
    logits = torch.tensor([0.0, 0.5, 0.3, 0.2]).log().repeat(400, 1)
    shares = torch.bincount(batch._choose(logits), minlength=4) / 400
    torch.testing.assert_close(shares, torch.tensor([0.0, 0.5, 0.3, 0.2]), atol=0.08, rtol=0)


def test_killed_and_started_again_no_job_is_twice_or_lost(
    backbone: LeanBackbone, text: ChatText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_SHARD_REPLIES", 4)
    monkeypatch.setattr(room, "_REPORT_SECONDS", 0.0)
    config = options(temperatures=(0.0, 0.9))
    first = distill(backbone, text, tmp_path / "broken", config)
    while not list((tmp_path / "broken").glob("replies-*")):
        next(first)
    first.close()
    written = [reply.job for reply in read_shards(tmp_path / "broken")]
    assert 4 <= len(written) < 10
    again = list(distill(backbone, text, tmp_path / "broken", config))
    jobs = [reply.job for reply in read_shards(tmp_path / "broken")]
    assert sorted(jobs) == list(range(0, 2 * len(jobs), 2)), "a job was answered twice, or left out"
    assert jobs[: len(written)] == written
    assert 0 < again[0].done < config.tokens
    unbroken = write(backbone, text, tmp_path / "unbroken", config)
    resumed = {reply.job: reply for reply in read_shards(tmp_path / "broken")}
    for job in unbroken.keys() & resumed.keys():
        assert unbroken[job].token_ids == resumed[job].token_ids


def test_more_tokens_extend_what_is_there(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    few = write(backbone, text, tmp_path, options(tokens=100))
    assert list(distill(backbone, text, tmp_path, options(tokens=100)))[-1].done == 100
    more = write(backbone, text, tmp_path, options(tokens=400, places=3))
    assert few.keys() < more.keys()
    assert sum(len(reply.token_ids) for reply in more.values()) >= 400


def test_long_replies_are_not_the_ones_left_out(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    """Ending at the first `tokens` finished ones would keep the short replies of the last batch only."""
    replies = write(backbone, text, tmp_path, options(tokens=60, places=12))
    assert len(replies) >= 12
    assert sorted(replies) == list(range(0, 2 * len(replies), 2))


def test_progress_counts_reply_tokens(
    backbone: LeanBackbone, text: ChatText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "_REPORT_SECONDS", 0.0)
    events = list(distill(backbone, text, tmp_path, SMALL))
    done = [event.done for event in events]
    assert done == sorted(done)
    assert done[0] == 0
    assert done[1] == SMALL.places, "one token in every place after the first step"
    assert done[-1] == SMALL.tokens == max(done)
    assert {(event.total, event.unit) for event in events} == {(SMALL.tokens, "tokens")}


class Scripted(LeanBackbone):
    """Says what it is told to, and remembers what it was given to read."""

    script: deque[int]
    read: list[list[int]]

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.tensor([self.script.popleft()]), 264).float() * 1e4

    def forward(self, token_ids: torch.Tensor, *arguments: Any) -> torch.Tensor:
        self.read.append(token_ids.tolist())
        return super().forward(token_ids, *arguments)


def test_prompts_the_model_writes_itself(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    model = tiny_model("llama")
    backbone = Scripted(model, make_spec(model, tokenizer, "scripted"))
    text = ChatText(tokenizer, [END_ID])
    end = [END_ID]
    hello, other, answer = (tokenizer.encode(words) for words in ("Hello there!", "Who are you?", "I am."))
    backbone.read = []
    backbone.script = deque(
        (
            *(*hello, *end, *answer, *end),  # a prompt and the answer to it
            *(*tokenizer.encode("ab"), *end),  # a fragment
            *(*hello, *end),  # a repeat
            *tokenizer.encode("a" * 16),  # over-long: no end in sight
            *(*other, *end, *answer, *end),
        )
    )
    config = options(tokens=12, self_written=1.0, places=1, max_prompt_tokens=16)
    last = list(distill(backbone, text, tmp_path, config))[-1]
    assert not backbone.script
    replies = list(read_shards(tmp_path))
    wanted = [text.prompt_ids([{"role": "user", "content": words}]) for words in ("Hello there!", "Who are you?")]
    assert [reply.prompt_ids for reply in replies] == wanted
    assert [reply.token_ids for reply in replies] == [[*answer, *end]] * 2, "only the assistant's tokens count"
    assert backbone.read[0] == tokenizer.encode("<|user|>"), "nothing but the opening of a user turn"
    assert "1 fragmentary" in last.stage
    assert "1 repeated" in last.stage
    assert "1 over-long" in last.stage


def test_a_prompt_answered_before_the_restart_is_a_repeat(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    model = tiny_model("llama")
    backbone = Scripted(model, make_spec(model, tokenizer, "scripted"))
    text = ChatText(tokenizer, [END_ID])
    hello, other = ([*tokenizer.encode(words), END_ID] for words in ("Hello there!", "Who are you?"))
    backbone.read, backbone.script = [], deque([*hello, 1, 2, END_ID])
    list(distill(backbone, text, tmp_path, options(tokens=3, self_written=1.0, places=1)))
    backbone.script = deque([*hello, *other, 1, 2, END_ID])
    last = list(distill(backbone, text, tmp_path, options(tokens=6, self_written=1.0, places=1)))[-1]
    assert "1 repeated" in last.stage
    assert len(list(read_shards(tmp_path))) == 2


def test_the_longest_prompt_and_reply_fit_a_short_context(text: ChatText, tmp_path: Path) -> None:
    model = tiny_model("llama", context=64)
    backbone = LeanBackbone(model, make_spec(model, tiny_tokenizer(), "short"))
    config = options(max_prompt_tokens=500, max_reply_tokens=500, temperatures=(1.0,), self_written=0.5, tokens=100)
    never = ChatText(tiny_tokenizer(), [END_ID])
    replies = write(backbone, never, tmp_path, config)
    assert max(len(reply.prompt_ids) + len(reply.token_ids) for reply in replies.values()) == 64
    assert text.stop_ids != never.stop_ids


def test_a_template_too_long_for_any_prompt_ends_with_an_error(
    backbone: LeanBackbone, text: ChatText, tmp_path: Path
) -> None:
    with pytest.raises(TrainingError, match=r"500 prompts in a row were dropped \(500 over-long\)"):
        list(distill(backbone, text, tmp_path, options(max_prompt_tokens=8)))


def test_another_recipe_does_not_mix_in(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    before = write(backbone, text, tmp_path, SMALL)
    with pytest.raises(TrainingError, match="of other options"):
        list(distill(backbone, text, tmp_path, options(seed=2, tokens=900)))
    assert {reply.job for reply in read_shards(tmp_path)} == before.keys()
    (tmp_path / "replies.json").write_text("{", encoding="utf-8")
    with pytest.raises(TrainingError, match=r"replies\.json is damaged"):
        list(distill(backbone, text, tmp_path, SMALL))


def test_another_model_does_not_mix_in(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    write(backbone, text, tmp_path, SMALL)
    stored = json.loads((tmp_path / "replies.json").read_text(encoding="utf-8"))
    assert stored["model"] == backbone.spec.fingerprint
    other = tiny_model("qwen2")
    with pytest.raises(TrainingError, match="of another model"):
        list(distill(LeanBackbone(other, make_spec(other, tiny_tokenizer(), "o")), text, tmp_path, SMALL))


def test_no_chat_template(backbone: LeanBackbone, tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(NoChatTemplate):
        list(distill(backbone, ChatText(tokenizer, [END_ID]), tmp_path, SMALL))
    assert not list(read_shards(tmp_path))


def test_too_little_disk_is_said_before_anything_is_written(
    backbone: LeanBackbone, text: ChatText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=65 * 2**20))
    with pytest.raises(DiskFull, match="fewer tokens"):
        list(distill(backbone, text, tmp_path, options(tokens=2_000_000)))
    assert not list(tmp_path.glob("replies-*"))
    assert list(distill(backbone, text, tmp_path, options(tokens=20))), "little is needed for few tokens"


def test_too_many_places_for_the_memory(
    backbone: LeanBackbone, text: ChatText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = backbone.batch_cache_bytes(5, 1630)
    assert needed == backbone.new_batch_cache(5, 1630).data.nbytes
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=needed - 1))
    with pytest.raises(OutOfMemory, match="fewer written at once"):
        list(distill(backbone, text, tmp_path, SMALL))


def test_a_folder_that_cannot_be_made(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written"):
        list(distill(backbone, text, tmp_path / "file" / "data", SMALL))


def test_some_conversations_go_on(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    config = options(multi_turn=0.5, tokens=600, temperatures=(0.0, 0.9))
    replies = write(backbone, text, tmp_path, config)
    second = {job: reply for job, reply in replies.items() if job % 2}
    assert len(second) > 2
    by_number = {conversation.number: conversation for conversation, _ in zip(plan(config), range(999), strict=False)}
    for job, reply in second.items():
        first, conversation = replies[job - 1], by_number[job // 2]
        assert first.token_ids[-1] in text.stop_ids, "a reply that was cut is not gone on from"
        follow = text.next_turn_ids(conversation.followup)
        assert reply.prompt_ids == [*first.prompt_ids, *first.token_ids[:-1], *follow]
        assert reply.temperature == first.temperature == conversation.temperature
    answered = [job for job, r in replies.items() if job % 2 == 0 and r.token_ids[-1] in text.stop_ids]
    wanted = [job for job in answered if by_number[job // 2].followup]
    assert len(second) >= len(wanted) - SMALL.places, "only those the end of the writing left out are missing"


def test_a_second_turn_lost_to_a_kill_is_written_later(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    config = options(multi_turn=1.0, tokens=200)
    few = write(backbone, text, tmp_path, config)
    missing = {job + 1 for job, r in few.items() if job % 2 == 0 and r.token_ids[-1] in text.stop_ids} - few.keys()
    more = write(backbone, text, tmp_path, options(multi_turn=1.0, tokens=500))
    assert missing
    assert missing <= more.keys()
    for job in missing:
        assert more[job].prompt_ids[: len(few[job - 1].prompt_ids)] == few[job - 1].prompt_ids


def test_a_users_own_prompts(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    file = [
        FilePrompt(({"role": "user", "content": "Mine?"},)),
        FilePrompt(({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Two?"}), "And then?"),
    ]
    config = options(from_file=1.0)
    list(distill(backbone, text, tmp_path, config, file))
    replies = {reply.job: reply for reply in read_shards(tmp_path)}
    assert replies[0].prompt_ids == text.prompt_ids(file[0].messages)
    assert replies[2].prompt_ids == text.prompt_ids(file[1].messages)
    assert len([job for job in replies if job % 2 == 0]) > 2, "the other sources go on where the file ends"
    with pytest.raises(TrainingError, match="of other options"):
        list(distill(backbone, text, tmp_path, config, file[:1]))


def test_two_writers_share_the_work(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    config = options(temperatures=(0.0, 0.9), self_written=0.3, tokens=400)
    for rank in (0, 1):
        list(distill(backbone, text, tmp_path / "two", config, rank=rank, ranks=2))
    two = {reply.job: reply for reply in read_shards(tmp_path / "two")}
    assert len(two) == len(list(read_shards(tmp_path / "two"))), "no job twice"
    one = write(backbone, text, tmp_path / "one", config)
    both = one.keys() & two.keys()
    assert {job // 2 % 2 for job in both} == {0, 1}
    # Nearly all: in another batch a sum rounds otherwise, and a draw at the border of two tokens falls to the other.
    assert sum(one[job].token_ids == two[job].token_ids for job in both) >= 0.8 * len(both)
    assert sum(len(reply.token_ids) for reply in two.values()) >= 400


def test_a_base_model_continues_what_it_began_itself(backbone: LeanBackbone, tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    text = ChatText(tokenizer, [END_ID])
    config = options(self_written=1.0, multi_turn=0.5, tokens=100)
    list(distill(backbone, text, tmp_path, config))
    replies = list(read_shards(tmp_path))
    assert replies
    for reply in replies:
        assert reply.prompt_ids[0] == END_ID, "it begins after the end-of-text token: there is no other"
        assert 2 <= len(reply.prompt_ids) <= 25
        assert reply.job % 2 == 0
