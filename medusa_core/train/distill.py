"""Let the model write its own training data: prompts in, replies and their hidden states out, many at once.

Some prompts come from `prompts.py`; others the model writes itself, from nothing but the opening of a user turn in its
own chat template. Replies enter and leave the batch as they end; each draws from a seed of its own, so what is written
does not depend on who else is in the batch. Killed and started again, it goes on where it was.
Knows nothing of heads or of training.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.config import DistillConfig
from medusa_core.errors import TrainingError
from medusa_core.events import Progress
from medusa_core.model_info import ChatMessage
from medusa_core.text import ChatText
from medusa_core.train import prompts
from medusa_core.train.room import check_disk, check_memory, check_writable
from medusa_core.train.shards import Reply, answered_prompts, reply_sizes, write_shard

_STAGE, _DONE = "Writing training replies", "Training replies written"
_PROMPT_TEMPERATURE = 1.0
_SHORTEST_MESSAGE = 8  # characters
_SHARD_REPLIES = 48
_PREFILL_CHUNK = 512
_REPORT_SECONDS = 5.0
_MOST_DROPS = 500  # prompts in a row
_STATE_BYTES = 2  # hidden states are kept in bfloat16


@dataclass(slots=True)
class _Job:
    """One sequence in the batch: first, for a self-written prompt, the prompt; then the reply to it."""

    number: int
    ids: list[int]
    temperature: float
    limit: int
    writes_prompt: bool
    draws: random.Random
    tokens: list[int] = field(default_factory=list)
    hidden: list[torch.Tensor] = field(default_factory=list)


def distill(backbone: LeanBackbone, text: ChatText, folder: Path, config: DistillConfig) -> Iterator[Progress]:
    """Write replies into shards in `folder` until `config.tokens` reply tokens are there, earlier runs counted.

    The progress is in reply tokens; the last one says how many prompts were dropped, and why. Replies begun before
    the target was reached are finished, so that long ones are not the ones left out. Raises NoChatTemplate, DiskFull,
    OutOfMemory, ConfigError or TrainingError.
    """
    check_writable(folder)
    _claim(folder, backbone, config)
    tokens = sum(size.tokens for size in reply_sizes(folder))
    if tokens >= config.tokens:
        yield Progress(_DONE, config.tokens, config.tokens, "tokens")
        return
    needed = int(config.tokens - tokens) * (backbone.spec.hidden_size * _STATE_BYTES + 8)
    check_disk(folder, needed, f"The hidden states of {config.tokens - tokens} reply tokens")
    batch = _Batch(backbone, text, config, answered_prompts(folder))
    jobs = _plan(text, config, {size.job for size in reply_sizes(folder)})
    finished: list[Reply] = []
    yield Progress(_STAGE, tokens, config.tokens, "tokens")
    reported = time.monotonic()
    while True:
        if tokens + batch.reply_tokens < config.tokens:
            batch.fill(jobs)
        else:
            batch.leave_prompts()
        if batch.idle:
            break
        for reply in batch.step():
            finished.append(reply)
            tokens += len(reply.token_ids)
        if len(finished) >= _SHARD_REPLIES:
            write_shard(folder, finished)
            finished.clear()
        if time.monotonic() - reported >= _REPORT_SECONDS:
            reported = time.monotonic()
            yield Progress(_STAGE, min(tokens + batch.reply_tokens, config.tokens), config.tokens, "tokens")
    if finished:
        write_shard(folder, finished)
    dropped = f" (prompts dropped: {batch.dropped_text()})" if batch.dropped else ""
    yield Progress(f"{_DONE}{dropped}", config.tokens, config.tokens, "tokens")


def recipe(config: DistillConfig) -> dict[str, Any]:
    """The options that decide what is written; how many tokens, and how many replies at once, do not."""
    return {name: value for name, value in asdict(config).items() if name not in ("tokens", "places")}


def _claim(folder: Path, backbone: LeanBackbone, config: DistillConfig) -> None:
    """Replies of two models or recipes must not mix: the folder remembers whose they are."""
    path = folder / "replies.json"
    owner = json.loads(json.dumps({"model": backbone.spec.fingerprint, **recipe(config)}))
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        part = path.with_suffix(".part")
        part.write_text(json.dumps(owner, indent=2) + "\n", encoding="utf-8")
        os.replace(part, path)
        return
    except ValueError as error:
        raise TrainingError(f"{path} is damaged ({error}); choose another folder (--data).") from error
    if found != owner:
        raise TrainingError(
            f"{folder} holds replies of another model or of other options: {found} instead of {owner}. "
            "Choose another folder (--data), or the options they were written with."
        )


def _plan(text: ChatText, config: DistillConfig, done: set[int]) -> Iterator[_Job]:
    """The endless list of jobs, the same for the same configuration; those answered already are left out."""
    written = prompts.generate(prompts.MAX_PROMPTS, config.seed)
    opening = text.user_opening_ids()
    rng = random.Random(config.seed)
    number = 0
    while True:
        itself = rng.random() < config.self_written
        prompt = None if itself else next(written, None)
        if prompt is None and not itself:
            written = prompts.generate(prompts.MAX_PROMPTS, config.seed + number)
            prompt = next(written)
        if number not in done:
            yield _Job(
                number=number,
                ids=opening if prompt is None else text.prompt_ids([ChatMessage(role="user", content=prompt)]),
                temperature=config.temperatures[number % len(config.temperatures)],
                limit=config.max_reply_tokens,
                writes_prompt=itself,
                draws=random.Random(f"{config.seed}:{number}"),
            )
        number += 1


class _Batch:
    """The sequences being written at this moment."""

    def __init__(
        self, backbone: LeanBackbone, text: ChatText, config: DistillConfig, seen: set[tuple[int, ...]]
    ) -> None:
        self._backbone, self._text, self._seen = backbone, text, seen
        context = backbone.spec.context_size
        self._longest_prompt = min(config.max_prompt_tokens, context // 2)
        longest_text = max(config.max_reply_tokens, len(text.user_opening_ids()))
        self._capacity = min(self._longest_prompt + longest_text, context)
        self._longest_reply = config.max_reply_tokens
        check_memory(
            backbone.device,
            backbone.batch_cache_bytes(config.places, self._capacity),
            f"{config.places} replies written at once",
            "Write fewer at once (--places).",
        )
        self._cache = backbone.new_batch_cache(config.places, self._capacity)
        self._jobs: list[_Job | None] = [None] * config.places
        self._waiting: list[_Job] = []
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
        finished = []
        for place, job in enumerate(self._jobs):
            if job is not None:
                job.tokens.append(tokens[place])
                if not job.writes_prompt:
                    job.hidden.append(self._hidden[place].to("cpu", torch.bfloat16, copy=True))
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
            job = self._waiting.pop() if self._waiting else next(jobs)
            if len(job.ids) <= self._longest_prompt:
                return job
            self._drop("over-long")

    def _move_in(self, place: int, job: _Job) -> None:
        room = self._longest_prompt if job.writes_prompt else self._longest_reply
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
        chosen = logits.argmax(-1)
        warm = [
            (place, _PROMPT_TEMPERATURE if job.writes_prompt else job.temperature, 1 - job.draws.random())
            for place, job in enumerate(self._jobs)
            if job is not None and (job.writes_prompt or job.temperature > 0)
        ]
        if warm:
            places = torch.tensor([place for place, _, _ in warm], device=logits.device)
            temperatures = torch.tensor([[t] for _, t, _ in warm], device=logits.device)
            points = torch.tensor([[point] for _, _, point in warm], device=logits.device)  # in (0, 1]
            cumulative = (logits[places].float() / temperatures).softmax(-1).cumsum(-1)
            chosen[places] = torch.searchsorted(cumulative, points * cumulative[:, -1:])[:, 0]
        return chosen

    def _end(self, job: _Job) -> list[Reply]:
        if job.writes_prompt:
            self._ask(job)
            return []
        self._drops_in_row = 0
        return [Reply(job.number, job.temperature, job.ids, job.tokens, torch.stack(job.hidden))]

    def _ask(self, job: _Job) -> None:
        """Turn a self-written prompt into the job of answering it, unless it is a fragment or a repeat."""
        message = self._text.decode(job.tokens).strip()
        ids = self._text.prompt_ids([ChatMessage(role="user", content=message)])
        if job.tokens[-1] not in self._text.stop_ids:
            self._drop("over-long")
        elif len(message) < _SHORTEST_MESSAGE:
            self._drop("fragmentary")
        elif tuple(ids) in self._seen:
            self._drop("repeated")
        else:
            self._seen.add(tuple(ids))
            reply = _Job(job.number, ids, job.temperature, self._longest_reply, writes_prompt=False, draws=job.draws)
            self._waiting.append(reply)

    def _drop(self, why: str) -> None:
        self.dropped[why] += 1
        self._drops_in_row += 1
        if self._drops_in_row >= _MOST_DROPS:
            raise TrainingError(
                f"{self._drops_in_row} prompts in a row were dropped ({self.dropped_text()}). A prompt may have "
                f"{self._longest_prompt} tokens, of which the chat template opens with "
                f"{len(self._text.user_opening_ids())}; or the model does not end the messages it writes itself, then "
                "do without them (--self-written 0)."
            )
