"""Medusa-1: what each head learns at each position, and that training makes heads better and nothing else different."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from medusa_core.backbone.lean import LeanBackbone
from medusa_core.backbone.load import load_backbone, make_spec
from medusa_core.backbone.stock import StockBackbone
from medusa_core.calibrate.ranks import head_fits, measure_fits, observe_ranks
from medusa_core.config import DistillConfig, HeadsOutput, TrainConfig
from medusa_core.errors import ConfigError, ModelUnsupported, TrainingError
from medusa_core.events import TrainingStep
from medusa_core.heads.checkpoint import HeadsCheckpoint, load_heads
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.heads.rooted import RootedHeads
from medusa_core.text import ChatText
from medusa_core.tiny import save_tiny_model, tiny_model, tiny_tokenizer
from medusa_core.train import medusa1, processes
from medusa_core.train.corpus import Corpus
from medusa_core.train.loop import Batches, fit
from medusa_core.train.medusa1 import HeadsObjective, train_heads

V, H = 30, 64
WEIGHT = torch.randn(V, H, generator=torch.Generator().manual_seed(0))
DATA = DistillConfig(tokens=600, self_written=0.0, max_prompt_tokens=1600, max_reply_tokens=40, places=8)
TRAIN = TrainConfig(
    num_heads=2, epochs=2, batch_positions=64, draft_vocab_size=100, held_out=0.2, tree_nodes=6, checkpoint_seconds=0.0
)
# Head k at t learns the token k further on in the same reply: replies 0 ... 5 and 6 ... 8, written out.
LABELS = {1: [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (6, 7), (7, 8)], 2: [(0, 2), (1, 3), (2, 4), (3, 5), (6, 8)]}


def corpus(*replies: list[int]) -> Corpus:
    """Each state is the output head's row of its token, so that the model's own choice there is that token."""
    return Corpus([(reply, WEIGHT[reply]) for reply in replies])


def heads_of(num_heads: int, token_map: torch.Tensor | None = None, *, shared: bool = True) -> MedusaHeads:
    draft = V if token_map is None else len(token_map)
    shape = HeadsShape(
        num_heads=num_heads, num_layers=1, hidden_size=H, vocab_size=V, draft_vocab_size=draft, shared_output=shared
    )
    heads = MedusaHeads(shape, WEIGHT, token_map)
    with torch.no_grad():
        heads.w1.normal_(0.0, 0.05, generator=torch.Generator().manual_seed(1))
    return heads


def loss_of(objective: HeadsObjective, positions: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = objective(positions, objective.counts(positions))
    return loss


@pytest.mark.parametrize("soft", [True, False])
def test_labels_by_hand(soft: bool) -> None:
    replies = corpus([3, 14, 15, 9, 2, 6], [5, 3, 8])
    config = TrainConfig(num_heads=2, soft_labels=soft, draft_vocab_size=0)
    heads = heads_of(2)
    loss = loss_of(HeadsObjective(heads, replies, WEIGHT, config), torch.arange(9))
    logits = heads(WEIGHT[replies.tokens])
    expected = torch.tensor(0.0)
    for k, pairs in LABELS.items():
        terms = []
        for state, target in pairs:
            label = F.linear(WEIGHT[replies.tokens[target]], WEIGHT).softmax(-1) if soft else replies.tokens[target]
            terms.append(F.cross_entropy(logits[k - 1, state], label))
        expected = expected + 0.8**k * torch.stack(terms).mean()
    torch.testing.assert_close(loss, expected)


@pytest.mark.parametrize("soft", [True, False])
def test_the_order_in_a_batch_does_not_matter(soft: bool) -> None:
    replies = corpus([3, 14, 15, 9, 2, 6], [5, 3, 8])
    objective = HeadsObjective(heads_of(2), replies, WEIGHT, TrainConfig(num_heads=2, soft_labels=soft))
    shuffled = torch.tensor([7, 0, 3, 8, 1, 6, 5, 2, 4])
    torch.testing.assert_close(loss_of(objective, shuffled), loss_of(objective, torch.arange(9)))


def test_tokens_outside_the_draft_vocabulary_are_no_hard_labels() -> None:
    replies = corpus([3, 14, 15, 9])
    token_map = torch.tensor([3, 9, 15])
    config = TrainConfig(num_heads=1, soft_labels=False)
    heads = heads_of(1, token_map)
    loss = loss_of(HeadsObjective(heads, replies, WEIGHT, config), torch.arange(4))
    logits = heads(WEIGHT[replies.tokens])[0]
    # 14 cannot be guessed; 15 is entry 2 and 9 entry 1 of the vocabulary.
    expected = (F.cross_entropy(logits[1], torch.tensor(2)) + F.cross_entropy(logits[2], torch.tensor(1))) / 2
    torch.testing.assert_close(loss, 0.8 * expected)


@pytest.mark.parametrize(("soft", "shared"), [(True, True), (False, True), (True, False)])
def test_heads_learn_what_can_be_learned(soft: bool, shared: bool, tmp_path: Path) -> None:
    """Tokens count upwards, so every head can be right always; nothing but the heads' own weights moves."""
    replies = corpus(*[[(start + i) % V for i in range(12)] for start in range(0, V, 2)])
    config = TrainConfig(num_heads=3, soft_labels=soft, epochs=30, batch_positions=32, learning_rate=0.01)
    heads = heads_of(3, shared=shared)
    before, w2 = WEIGHT.clone(), heads.w2.detach().clone()
    objective = HeadsObjective(heads, replies, WEIGHT, config)

    def evaluate() -> Any:
        return measure_fits(heads, replies.pieces(), 10)

    start = head_fits(observe_ranks(heads, replies.pieces(), 10), 3)
    batches = Batches(len(replies.tokens), config.batch_positions, config.seed, 16)
    accelerator = processes.join(torch.device("cpu"), config.mixed_precision)
    events = list(fit(objective, evaluate, batches, config, tmp_path, accelerator))
    assert events[-1].loss < events[0].loss / 2
    assert all(fit.top1 < 0.3 for fit in start)
    assert all(fit.top1 > 0.9 for fit in events[-1].heads)
    assert torch.equal(WEIGHT, before), "the model's output head is frozen"
    assert torch.equal(heads.w2.detach(), w2) is shared


def train(backbone: LeanBackbone, text: ChatText, out: Path, work: Path, config: TrainConfig = TRAIN) -> Any:
    events = []
    training = train_heads(backbone, text, out, work, DATA, config)
    while True:
        try:
            events.append(next(training))
        except StopIteration as stop:
            return events, stop.value


def parameters(backbone: LeanBackbone) -> list[torch.Tensor]:
    ids = torch.arange(40)
    states = backbone.forward(ids, torch.arange(40), None, backbone.new_cache())
    return [states.clone(), backbone.output_weight.clone(), backbone.embedding_weight.clone()]


@pytest.mark.parametrize("output", ["model", "one", "own"])
def test_from_nothing_to_a_heads_folder(
    backbone: LeanBackbone, text: ChatText, tmp_path: Path, output: HeadsOutput
) -> None:
    config = replace(TRAIN, output=output)
    before = parameters(backbone)
    events, saved = train(backbone, text, tmp_path / "out", tmp_path / "work", config)
    for mine, then in zip(parameters(backbone), before, strict=True):
        assert torch.equal(mine, then), "the model itself is frozen"
    assert isinstance(saved, HeadsCheckpoint)
    loaded = load_heads(tmp_path / "out", backbone)
    assert loaded.tree == saved.tree
    assert len(loaded.tree.tree) > 1
    record = loaded.training
    steps = [event for event in events if isinstance(event, TrainingStep)]
    assert [len(event.heads) for event in steps if event.heads] == [2, 2]
    assert [fit["top1"] for fit in record["held_out"]] == [round(fit.top1, 4) for fit in steps[-1].heads]
    assert record["loss"] == round(steps[-1].loss, 4)
    assert record["training"]["output"] == output
    shape = loaded.heads.shape
    assert (shape.shared_output, shape.one_output) == (output == "model", output == "one")
    assert 0 < record["draft_vocabulary_coverage"] < 1
    left = {path.name for path in (tmp_path / "work").iterdir()}
    assert left <= {"replies", "training.lock"}, "no checkpoint is left over"


def test_other_options_over_the_same_replies(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    """Neither a finished nor an interrupted training stands in the way of another."""
    train(backbone, text, tmp_path / "one", tmp_path / "work")
    interrupted = train_heads(backbone, text, tmp_path / "two", tmp_path / "work", DATA, TRAIN)
    while not isinstance(next(interrupted), TrainingStep):
        pass
    interrupted.close()
    runs = list((tmp_path / "work").glob("run-*"))
    assert len(runs) == 1
    hard = TrainConfig(num_heads=2, epochs=1, batch_positions=64, draft_vocab_size=100, soft_labels=False)
    train(backbone, text, tmp_path / "three", tmp_path / "work", hard)
    assert list((tmp_path / "work").glob("run-*")) == runs, "the interrupted one can still go on"
    _, resumed = train(backbone, text, tmp_path / "two", tmp_path / "work")
    first = load_heads(tmp_path / "one", backbone)
    assert resumed.training["loss"] == first.training["loss"]


def test_replies_too_short_for_the_heads(backbone: LeanBackbone, text: ChatText, tmp_path: Path) -> None:
    every = ChatText(tiny_tokenizer(), range(264))
    with pytest.raises(TrainingError, match="head 1 has no token to learn"):
        train(backbone, every, tmp_path / "out", tmp_path / "work")
    assert not (tmp_path / "out").exists()
    assert text.stop_ids < every.stop_ids


def test_a_place_that_holds_something_else_is_left_alone(
    backbone: LeanBackbone, text: ChatText, tmp_path: Path
) -> None:
    out = tmp_path / "precious"
    out.mkdir()
    (out / "thesis.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds no heads, so it is not overwritten"):
        train(backbone, text, out, tmp_path / "work")
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]
    assert not (tmp_path / "work").exists(), "said before hours of work"


def test_a_model_that_cannot_verify_guesses_is_named(text: ChatText, tmp_path: Path) -> None:
    model = tiny_model("llama")
    spec = replace(make_spec(model, tiny_tokenizer(), "other"), no_trees="its layers cannot forget")
    with pytest.raises(ModelUnsupported, match="Heads for other would be of no use"):
        next(train_heads(StockBackbone(model, spec), text, tmp_path / "out", tmp_path / "work", DATA, TRAIN))


def test_heads_that_see_the_root_learn_what_only_the_root_tells() -> None:
    # Every state is the same; the token chosen from it decides the one after: 3 4 3 4 ... or 5 6 5 6 ...
    tokens = torch.tensor([3, 4] * 10 + [5, 6] * 10)
    replies = Corpus([(part.tolist(), torch.ones(20, H)) for part in tokens.split(20)])
    config = TrainConfig(num_heads=1, soft_labels=False, draft_vocab_size=0)
    shape = HeadsShape(num_heads=1, num_layers=1, hidden_size=H, vocab_size=V, draft_vocab_size=V, shared_output=True)
    embedding = torch.randn(V, H, generator=torch.Generator().manual_seed(2))
    rooted = RootedHeads(shape, WEIGHT, embedding)
    rooted.scale_roots(torch.ones(40, H))
    accuracy = {}
    for heads in (MedusaHeads(shape, WEIGHT), rooted):
        objective = HeadsObjective(heads, replies, WEIGHT, config)
        optimizer = torch.optim.Adam(heads.parameters(), lr=0.01)
        for _ in range(150):
            optimizer.zero_grad()
            loss_of(objective, torch.arange(40)).backward()
            optimizer.step()
        accuracy[heads.kind] = head_fits(observe_ranks(heads, replies.pieces(), 10), 1)[0].top1
    assert accuracy["rooted"] == 1.0
    assert accuracy["medusa"] < 0.5


def test_heads_for_a_model_in_four_bits(text: ChatText, tmp_path: Path) -> None:
    """Hidden states and labels are those of the quantized model, which stays as it is."""
    folder = save_tiny_model(tmp_path / "model")
    loading = load_backbone(folder, "nf4", "cpu")
    while True:
        try:
            next(loading)
        except StopIteration as stop:
            quantized, _, precision = stop.value
            break
    assert precision == "nf4"
    before = parameters(quantized)
    config = replace(TRAIN, num_heads=1, epochs=1)
    short = ChatText(tiny_tokenizer(), text.stop_ids)
    data = replace(DATA, tokens=150, max_prompt_tokens=120, max_reply_tokens=20)
    events = list(train_heads(quantized, short, tmp_path / "out", tmp_path / "work", data, config, precision=precision))
    assert isinstance(events[-1], TrainingStep)
    for mine, then in zip(parameters(quantized), before, strict=True):
        assert torch.equal(mine, then), "the quantized model is frozen"
    loaded = load_heads(tmp_path / "out", quantized)
    assert loaded.heads.w1.any(), "nothing was learned"
    assert loaded.statistics is not None
    assert loaded.statistics.precision == "nf4", "what the model was loaded in, not what its states are held in"


def test_replies_of_another_model_are_refused(backbone: LeanBackbone) -> None:
    for replies in ([([3, 264], torch.ones(2, 64))], [([3, 4], torch.ones(2, 32))]):
        with pytest.raises(TrainingError, match="written by another model"):
            medusa1._check_corpus(Corpus(replies), backbone)
