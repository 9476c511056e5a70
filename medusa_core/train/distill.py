"""Let the model write its own training data: prompts in, replies and their hidden states out, many at once.

Some prompts come from `prompts.py`; others the model writes itself, from nothing but the opening of a user turn in its
own chat template. Replies enter and leave the batch as they end. Killed and started again, it goes on where it was.
Knows nothing of heads or of training.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.config import DistillConfig
from medusa_core.events import Progress
from medusa_core.model_info import ChatMessage
from medusa_core.text import ChatText
from medusa_core.train import prompts
from medusa_core.train.shards import Reply, answered_jobs, write_shard

_PROMPT_TEMPERATURE = 1.0
_SHARD_REPLIES = 48
_PREFILL_CHUNK = 512


@dataclass(slots=True)
class _Job:
    """One sequence in the batch: first, for a self-written prompt, the prompt; then the reply to it."""

    number: int
    ids: list[int]
    temperature: float
    limit: int
    writes_prompt: bool
    tokens: list[int] = field(default_factory=list)
    hidden: list[torch.Tensor] = field(default_factory=list)


def distill(backbone: LeanBackbone, text: ChatText, folder: Path, config: DistillConfig) -> Iterator[Progress]:
    """Write replies into shards in `folder` until `config.tokens` reply tokens are there, earlier runs counted.

    The progress is in reply tokens. Raises NoChatTemplate, DiskFull or TrainingError.
    """
    done, tokens = answered_jobs(folder)
    batch = _Batch(backbone, text, config)
    jobs = _plan(text, config, done)
    finished: list[Reply] = []
    yield Progress("Writing training replies", tokens, config.tokens, "tokens")
    while tokens < config.tokens:
        batch.fill(jobs)
        if batch.idle:
            break
        for reply in batch.step():
            finished.append(reply)
            tokens += len(reply.token_ids)
        if len(finished) >= _SHARD_REPLIES:
            write_shard(folder, finished)
            finished.clear()
            yield Progress("Writing training replies", min(tokens, config.tokens), config.tokens, "tokens")
    if finished:
        write_shard(folder, finished)
    yield Progress("Writing training replies", config.tokens, config.tokens, "tokens")


def _plan(text: ChatText, config: DistillConfig, done: set[int]) -> Iterator[_Job]:
    """The endless list of jobs, the same for the same configuration; those answered already are left out."""
    written = prompts.generate(prompts.MAX_PROMPTS, config.seed)
    opening = text.user_opening_ids()
    rng = random.Random(config.seed)
    number = 0
    while True:
        temperature = config.temperatures[number % len(config.temperatures)]
        if rng.random() < config.self_written:
            job = _Job(number, opening, temperature, config.max_prompt_tokens, writes_prompt=True)
        else:
            prompt = next(written, None)
            if prompt is None:
                written = prompts.generate(prompts.MAX_PROMPTS, config.seed + number)
                prompt = next(written)
            ids = text.prompt_ids([ChatMessage(role="user", content=prompt)])
            job = _Job(number, ids, temperature, config.max_reply_tokens, writes_prompt=False)
        if number not in done:
            yield job
        number += 1


class _Batch:
    """The sequences being written at this moment."""

    def __init__(self, backbone: LeanBackbone, text: ChatText, config: DistillConfig) -> None:
        self._backbone, self._text, self._config = backbone, text, config
        capacity = config.max_prompt_tokens * 2 + config.max_reply_tokens
        self._capacity = min(capacity, backbone.spec.context_size)
        self._cache = backbone.new_batch_cache(config.places, self._capacity)
        self._jobs: list[_Job | None] = [None] * config.places
        self._waiting: list[_Job] = []
        self._hidden = torch.zeros(
            config.places, backbone.spec.hidden_size, dtype=backbone.dtype, device=backbone.device
        )
        self._generator = torch.Generator(device=backbone.device).manual_seed(config.seed)
        self._opening_length = len(text.user_opening_ids())
        self._seen_prompts: set[str] = set()
        self.dropped: Counter[str] = Counter()

    @property
    def idle(self) -> bool:
        return all(job is None for job in self._jobs)

    @torch.inference_mode()
    def fill(self, jobs: Iterator[_Job]) -> None:
        """Give every free place a sequence and read its prompt."""
        for place, occupant in enumerate(self._jobs):
            while occupant is None:
                occupant = self._waiting.pop() if self._waiting else next(jobs, None)
                if occupant is None:
                    return
                if len(occupant.ids) > self._config.max_prompt_tokens:
                    self.dropped["over-long"] += 1
                    occupant = None
            if self._jobs[place] is None:
                self._move_in(place, occupant)

    @torch.inference_mode()
    def step(self) -> list[Reply]:
        """One token for every sequence; returns the replies that ended with it."""
        tokens = self._choose(self._backbone.logits(self._hidden)).tolist()
        finished = []
        for place, job in enumerate(self._jobs):
            if job is None:
                continue
            job.tokens.append(tokens[place])
            if not job.writes_prompt:
                job.hidden.append(self._hidden[place].to(torch.bfloat16).clone())
            if tokens[place] in self._text.stop_ids or len(job.tokens) >= job.limit:
                finished += self._end(job)
                self._jobs[place] = None
                self._cache.lengths[place] = 0
        if not self.idle:
            self._hidden = self._backbone.forward_batch(torch.tensor(tokens, device=self._backbone.device), self._cache)
        return finished

    def _move_in(self, place: int, job: _Job) -> None:
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
        greedy = logits.argmax(-1)
        warm = [
            (place, _PROMPT_TEMPERATURE if job.writes_prompt else job.temperature)
            for place, job in enumerate(self._jobs)
            if job is not None and (job.writes_prompt or job.temperature > 0)
        ]
        if not warm:
            return greedy
        places = torch.tensor([place for place, _ in warm], device=logits.device)
        temperatures = torch.tensor([[t] for _, t in warm], device=logits.device)
        drawn = torch.multinomial((logits[places].float() / temperatures).softmax(-1), 1, generator=self._generator)
        greedy[places] = drawn[:, 0]
        return greedy

    def _end(self, job: _Job) -> list[Reply]:
        if job.writes_prompt:
            self._ask(job)
            return []
        return [Reply(job.number, job.temperature, job.ids, job.tokens, torch.stack(job.hidden))]

    def _ask(self, job: _Job) -> None:
        """Turn a self-written prompt into the job of answering it, unless it is a fragment or a repeat."""
        message = self._text.decode(job.tokens).strip()
        if job.tokens[-1] not in self._text.stop_ids:
            self.dropped["over-long"] += 1
        elif len(message) < 8:
            self.dropped["fragment"] += 1
        elif message in self._seen_prompts:
            self.dropped["repeat"] += 1
        else:
            self._seen_prompts.add(message)
            ids = self._text.prompt_ids([ChatMessage(role="user", content=message)])
            self._waiting.append(
                _Job(job.number, ids, job.temperature, self._config.max_reply_tokens, writes_prompt=False)
            )
