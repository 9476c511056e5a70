"""Let the model write its own training data: prompts in, replies and their hidden states out, many at once.

`plan.py` says which conversations; some prompts the model writes itself, from nothing but the opening of a user turn
in its own chat template, and some conversations go on for a second turn. Replies enter and leave the batch as they
end; each draws from a seed of its own, so what is written does not depend on who else is in the batch. Killed and
started again, it goes on where it was. Knows nothing of heads or of training.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from medusa_core.backbone.base import BatchBackbone
from medusa_core.config import DistillConfig
from medusa_core.errors import TrainingError
from medusa_core.events import Progress
from medusa_core.model_info import ChatMessage
from medusa_core.prompt_file import FilePrompt, digest
from medusa_core.text import ChatText
from medusa_core.train.draw import draw
from medusa_core.train.plan import Conversation, conversation_of, plan
from medusa_core.train.room import check_disk, check_memory, check_writable
from medusa_core.train.shards import Reply, WrittenReply, write_shard, written_replies

_STAGE, _DONE = "Writing training replies", "Training replies written"
_PROMPT_TEMPERATURE = 1.0
_SHORTEST_MESSAGE = 8  # characters
_SHORTEST_FOLLOWUP_ROOM = 32  # tokens that a second reply must have room for
_OPENING_TOKENS = 24  # of a text that a model without a chat template begins itself
_SHARD_REPLIES = 48
_PREFILL_CHUNK = 256
_REPORT_SECONDS = 2.0
_MOST_DROPS = 500  # prompts in a row
_STATE_BYTES = 2  # hidden states are kept in bfloat16


@dataclass(slots=True)
class _Job:
    """One sequence in the batch: first, for a self-written prompt, the prompt; then the reply to it."""

    conversation: Conversation
    turn: int
    ids: list[int]
    writes_prompt: bool
    draws: random.Random
    limit: int = 0
    tokens: list[int] = field(default_factory=list)
    hidden: list[torch.Tensor] = field(default_factory=list)

    @property
    def temperature(self) -> float:
        return _PROMPT_TEMPERATURE if self.writes_prompt else self.conversation.temperature


def distill(
    backbone: BatchBackbone,
    text: ChatText,
    folder: Path,
    config: DistillConfig,
    file: Sequence[FilePrompt] = (),
    *,
    rank: int = 0,
    ranks: int = 1,
) -> Generator[Progress, None, None]:
    """Write replies into shards in `folder` until `config.tokens` reply tokens are there, earlier runs counted.

    Of `ranks` writers this one, number `rank`, writes its share. The progress is in reply tokens, of all writers as
    far as this one can tell; the last one says how many prompts were dropped, and why. Replies begun before the target
    was reached are finished, so that long ones are not the ones left out.
    Raises NoChatTemplate, DiskFull, OutOfMemory, ConfigError or TrainingError.
    """
    check_writable(folder)
    _claim(folder, backbone, config, file)
    written = [reply for reply in written_replies(folder) if conversation_of(reply.job) % ranks == rank]
    target = -(-config.tokens // ranks)
    tokens = sum(len(reply.token_ids) for reply in written)
    if tokens < target:
        needed = (target - tokens) * ranks * (backbone.spec.hidden_size * _STATE_BYTES + 8)
        check_disk(folder, needed, f"The hidden states of {(target - tokens) * ranks} reply tokens")
        batch = _Batch(backbone, text, config, {tuple(reply.prompt_ids) for reply in written})
        conversations = plan(config, file, rank=rank, ranks=ranks)
        jobs = _jobs(text, conversations, {reply.job: reply for reply in written}, config.seed)
        yield from _write(batch, jobs, folder, tokens, target, rank, ranks)
        dropped = f" (prompts dropped: {batch.dropped_text()})" if batch.dropped else ""
    else:
        dropped = ""
    yield Progress(f"{_DONE}{dropped}", config.tokens, config.tokens, "tokens")


def _write(
    batch: _Batch, jobs: Iterator[_Job], folder: Path, tokens: int, target: int, rank: int, ranks: int
) -> Generator[Progress, None, None]:
    finished: list[Reply] = []
    yield Progress(_STAGE, tokens * ranks, target * ranks, "tokens")
    reported = time.monotonic()
    while True:
        if tokens + batch.reply_tokens < target:
            batch.fill(jobs)
        else:
            batch.leave_prompts()
        if batch.idle:
            break
        for reply in batch.step():
            finished.append(reply)
            tokens += len(reply.token_ids)
        if len(finished) >= _SHARD_REPLIES:
            write_shard(folder, finished, rank)
            finished.clear()
        if time.monotonic() - reported >= _REPORT_SECONDS:
            reported = time.monotonic()
            try:
                yield Progress(_STAGE, min(tokens + batch.reply_tokens, target) * ranks, target * ranks, "tokens")
            except GeneratorExit:  # paused: whole replies are kept
                if finished:
                    write_shard(folder, finished, rank)
                raise
    if finished:
        write_shard(folder, finished, rank)


def recipe(config: DistillConfig, file: Sequence[FilePrompt] = ()) -> dict[str, Any]:
    """What decides which replies are written; how many tokens, and how many replies at once, do not."""
    options = {name: value for name, value in asdict(config).items() if name not in ("tokens", "places")}
    return {**options, "file": digest(file) if file else ""}


def _claim(folder: Path, backbone: BatchBackbone, config: DistillConfig, file: Sequence[FilePrompt]) -> None:
    """Replies of two models or recipes must not mix: the folder remembers whose they are."""
    path = folder / "replies.json"
    owner = json.loads(json.dumps({"model": backbone.spec.fingerprint, **recipe(config, file)}))
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        part.write_text(json.dumps(owner, indent=2) + "\n", encoding="utf-8")
        os.replace(part, path)
        return
    except ValueError as error:
        raise TrainingError(
            f"{path} is damaged ({error}); delete the training data in {folder}, or choose another folder for it."
        ) from error
    if found != owner:
        raise TrainingError(
            f"{folder} holds replies of another model or of other options: {found} instead of {owner}. "
            "Choose another folder for the training data, or the options they were written with."
        )


def _jobs(
    text: ChatText, conversations: Iterator[Conversation], written: dict[int, WrittenReply], seed: int
) -> Iterator[_Job]:
    """What is still to be written, turn by turn; of a conversation that was cut between its turns only the second."""
    opening = text.user_opening_ids() if text.has_template else text.first_ids()
    for conversation in conversations:
        first = written.get(conversation.job(0))
        if first is None:
            ids = text.prompt_ids(conversation.messages) if conversation.messages else opening
            draws = random.Random(f"{seed}:{conversation.number}")
            yield _Job(conversation, 0, ids, not conversation.messages, draws)
        elif conversation.job(1) not in written:
            second = _second_turn(text, conversation, first.prompt_ids, first.token_ids, seed)
            if second is not None:
                yield second


def _second_turn(
    text: ChatText, conversation: Conversation, prompt_ids: list[int], token_ids: list[int], seed: int
) -> _Job | None:
    """The job of answering the user's second message; None where there is none, or the first reply was cut."""
    if not conversation.followup or not text.has_template or token_ids[-1] not in text.stop_ids:
        return None
    ids = [*prompt_ids, *token_ids[:-1], *text.next_turn_ids(conversation.followup)]
    return _Job(conversation, 1, ids, writes_prompt=False, draws=random.Random(f"{seed}:{conversation.number}:1"))


class _Batch:
    """The sequences being written at this moment."""

    def __init__(
        self, backbone: BatchBackbone, text: ChatText, config: DistillConfig, seen: set[tuple[int, ...]]
    ) -> None:
        self._backbone, self._text, self._seen, self._seed = backbone, text, seen, config.seed
        context = backbone.spec.context_size
        self._longest_prompt = min(config.max_prompt_tokens, context // 2)
        longest_text = max(config.max_reply_tokens, len(text.user_opening_ids()) if text.has_template else 0)
        self._capacity = min(self._longest_prompt + longest_text, context)
        self._longest_reply = config.max_reply_tokens
        check_memory(
            backbone.device,
            backbone.batch_cache_bytes(config.places, self._capacity),
            f"{config.places} replies written at once",
            "Close other programs, or have fewer written at once.",
        )
        self._cache = backbone.new_batch_cache(config.places, self._capacity)
        self._jobs: list[_Job | None] = [None] * config.places
        self._waiting: deque[_Job] = deque()
        self._hidden = torch.zeros(
            config.places, backbone.spec.hidden_size, dtype=backbone.dtype, device=backbone.device
        )
        self._drops_in_row = 0
        self.dropped: Counter[str] = Counter()

    @property
    def idle(self) -> bool:
        """No sequence is being written."""
        return all(job is None for job in self._jobs)

    @property
    def reply_tokens(self) -> int:
        """Tokens of the replies that are still being written."""
        return sum(len(job.tokens) for job in self._jobs if job is not None and not job.writes_prompt)

    def dropped_text(self) -> str:
        """How many prompts were dropped, and why: "3 over-long, 1 repeated"."""
        return ", ".join(f"{count} {why}" for why, count in self.dropped.most_common())

    @torch.inference_mode()
    def fill(self, jobs: Iterator[_Job]) -> None:
        """Give every free place a sequence and read its prompt."""
        for place, occupant in enumerate(self._jobs):
            if occupant is None:
                self._move_in(place, self._next(jobs))

    def leave_prompts(self) -> None:
        """Give up the prompts that are still being written: a later run writes them again."""
        self._waiting.clear()
        self._jobs = [None if job is None or job.writes_prompt else job for job in self._jobs]

    @torch.inference_mode()
    def step(self) -> list[Reply]:
        """One token for every sequence; returns the replies that ended with it."""
        tokens = self._choose(self._backbone.logits(self._hidden)).tolist()
        states = self._hidden.to("cpu", torch.bfloat16, copy=True)
        finished = []
        for place, job in enumerate(self._jobs):
            if job is not None:
                job.tokens.append(tokens[place])
                if not job.writes_prompt:
                    job.hidden.append(states[place])
                if tokens[place] in self._text.stop_ids or len(job.tokens) >= job.limit:
                    finished += self._end(job)
                    self._jobs[place] = None
            if self._jobs[place] is None:
                # The pass writes a row for a free place too; it must not run into the end of the cache.
                self._cache.lengths[place] = 0
        if not self.idle:
            self._hidden = self._backbone.forward_batch(torch.tensor(tokens, device=self._backbone.device), self._cache)
        return finished

    def _next(self, jobs: Iterator[_Job]) -> _Job:
        while True:
            job = self._waiting.popleft() if self._waiting else next(jobs)
            longest = self._longest_prompt if job.turn == 0 else self._capacity - _SHORTEST_FOLLOWUP_ROOM
            if len(job.ids) <= longest:
                return job
            self._drop("over-long")

    def _move_in(self, place: int, job: _Job) -> None:
        room = self._longest_reply
        if job.writes_prompt:
            room = self._longest_prompt if self._text.has_template else _OPENING_TOKENS
        job.limit = min(room, self._capacity - len(job.ids))
        cache = self._backbone.new_cache()
        ids = torch.tensor(job.ids, device=self._backbone.device)
        for start in range(0, len(job.ids), _PREFILL_CHUNK):
            chunk = ids[start : start + _PREFILL_CHUNK]
            positions = torch.arange(start, start + len(chunk), device=ids.device)
            hidden = self._backbone.forward(chunk, positions, None, cache)
        self._cache.move_in(place, cache)
        self._hidden[place] = hidden[-1]
        self._jobs[place] = job

    def _choose(self, logits: torch.Tensor) -> torch.Tensor:
        """A token for each place: the most likely one at temperature 0, else drawn. Logits (B, V) -> (B,)."""
        chosen = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
        cold = [place for place, job in enumerate(self._jobs) if job is not None and job.temperature == 0]
        warm = [
            (place, job.temperature, 1 - job.draws.random())
            for place, job in enumerate(self._jobs)
            if job is not None and job.temperature > 0
        ]
        if cold:
            chosen[cold] = logits[cold].argmax(-1)
        if warm:
            places, temperatures, points = zip(*warm, strict=True)  # points in (0, 1]
            scaled = logits[list(places)].float() / logits.new_tensor(temperatures, dtype=torch.float32)[:, None]
            chosen[list(places)] = draw(scaled.softmax(-1), logits.new_tensor(points, dtype=torch.float32))
        return chosen

    def _end(self, job: _Job) -> list[Reply]:
        if job.writes_prompt:
            self._ask(job)
            return []
        self._drops_in_row = 0
        conversation = job.conversation
        if job.turn == 0:
            second = _second_turn(self._text, conversation, job.ids, job.tokens, self._seed)
            if second is not None:
                self._waiting.append(second)
        number = conversation.job(job.turn)
        return [Reply(number, conversation.temperature, job.ids, job.tokens, torch.stack(job.hidden))]

    def _ask(self, job: _Job) -> None:
        """Turn a self-written prompt into the job of answering it, unless it is a fragment or a repeat."""
        if not self._text.has_template:
            self._answer(job, [*job.ids, *job.tokens])
            return
        message = self._text.decode(job.tokens).strip()
        ids = self._text.prompt_ids([ChatMessage(role="user", content=message)])
        if job.tokens[-1] not in self._text.stop_ids:
            self._drop("over-long")
        elif len(message) < _SHORTEST_MESSAGE:
            self._drop("fragmentary")
        else:
            self._answer(job, ids)

    def _answer(self, job: _Job, ids: list[int]) -> None:
        if tuple(ids) in self._seen:
            self._drop("repeated")
            return
        self._seen.add(tuple(ids))
        # Before the next prompts: their places are what the second turns and these wait for.
        self._waiting.append(_Job(job.conversation, job.turn, ids, writes_prompt=False, draws=job.draws))

    def _drop(self, why: str) -> None:
        self.dropped[why] += 1
        self._drops_in_row += 1
        if self._drops_in_row >= _MOST_DROPS:
            opening = len(self._text.user_opening_ids()) if self._text.has_template else 0
            raise TrainingError(
                f"{self._drops_in_row} prompts in a row were dropped ({self.dropped_text()}). A prompt may have "
                f"{self._longest_prompt} tokens, of which the chat template opens with {opening}; or the model does "
                "not end the messages it writes itself, then do without prompts that it writes itself."
            )
