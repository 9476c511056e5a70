"""The joint loss: what it is by hand, that adapters switched off leave the original, and what is trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM

from medusa_core.config import Medusa2Config, TrainConfig
from medusa_core.errors import ModelUnsupported
from medusa_core.heads.medusa import HeadsShape, MedusaHeads
from medusa_core.heads.rooted import RootedHeads
from medusa_core.tiny import tiny_model
from medusa_core.train.joint import RAMPS, JointObjective, _groups, add_adapters
from medusa_core.train.loop import Batches, _Guard
from medusa_core.train.shards import WrittenReply

REPLIES = [
    WrittenReply(0, [257, 72, 105, 259], [3, 14, 15, 9, 2, 6]),
    WrittenReply(2, [257, 10, 259], [5, 3, 8]),
    WrittenReply(4, [257, 44, 45, 46, 47, 48, 259], [1, 2]),
]
TRAIN = TrainConfig(num_heads=2, draft_vocab_size=0)
JOINT = Medusa2Config(rank=4, alpha=8, ramp="constant")


def made(
    train: TrainConfig = TRAIN, joint: Medusa2Config = JOINT, kind: type[MedusaHeads] = MedusaHeads
) -> tuple[Any, JointObjective]:
    model = tiny_model("llama")
    adapted = add_adapters(model, joint, "tiny", 1)
    shape = HeadsShape(num_heads=2, num_layers=1, hidden_size=64, vocab_size=264, draft_vocab_size=264,
                       shared_output=True)  # fmt: skip
    output, embedding = model.get_output_embeddings().weight, model.get_input_embeddings().weight
    heads = RootedHeads(shape, output, embedding) if kind is RootedHeads else MedusaHeads(shape, output)
    return adapted, JointObjective(adapted, heads, REPLIES, train, joint)


def disturb(objective: JointObjective) -> None:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in [*objective.adapters, *objective.heads.parameters()]:
            parameter.normal_(0.0, 0.05, generator=generator)


def by_hand(adapted: Any, objective: JointObjective, train: TrainConfig, joint: Medusa2Config) -> torch.Tensor:
    """The whole loss, one reply at a time, through transformers' own logits."""
    own, ahead, counts = 0.0, [0.0, 0.0], [0, 0]
    total = sum(len(reply.token_ids) for reply in REPLIES)
    decoder, head = adapted.get_base_model().model, adapted.get_base_model().lm_head
    for reply in REPLIES:
        ids = torch.tensor([reply.prompt_ids + reply.token_ids])
        rows = slice(len(reply.prompt_ids) - 1, -1)
        with adapted.disable_adapter():
            original = head(decoder(ids).last_hidden_state[0, rows]).softmax(-1)
        hidden = decoder(ids).last_hidden_state[0, rows]
        tokens = torch.tensor(reply.token_ids)
        log_probabilities = head(hidden).log_softmax(-1)
        if joint.own_loss == "kl":
            own = own + (original * (original.log() - log_probabilities)).sum()
        else:
            own = own - log_probabilities.gather(1, tokens[:, None]).sum()
        logits = objective.heads(hidden, tokens)
        for k in (1, 2):
            labels = original[k:] if train.soft_labels else tokens[k:]
            ahead[k - 1] = ahead[k - 1] + F.cross_entropy(logits[k - 1, :-k], labels, reduction="sum")
            counts[k - 1] += len(tokens) - k
    shares = [0.8**k * ahead[k - 1] / counts[k - 1] for k in (1, 2)]
    return torch.as_tensor(own / total + joint.head_share * sum(shares))


@pytest.mark.parametrize("kind", [MedusaHeads, RootedHeads])
@pytest.mark.parametrize(("soft", "own"), [(True, "kl"), (False, "kl"), (True, "tokens"), (False, "tokens")])
def test_the_loss_and_its_gradients_by_hand(soft: bool, own: Any, kind: type[MedusaHeads]) -> None:
    train, joint = replace(TRAIN, soft_labels=soft), replace(JOINT, own_loss=own)
    adapted, objective = made(train, joint, kind)
    disturb(objective)
    items = torch.arange(3)
    loss = objective(items, objective.counts(items))
    loss.backward()
    gradients = [parameter.grad.clone() for parameter in objective.parameters() if parameter.requires_grad]
    objective.zero_grad()
    expected = by_hand(adapted, objective, train, joint)
    torch.testing.assert_close(loss, expected, rtol=1e-4, atol=1e-4)
    expected.backward()
    for mine, parameter in zip(gradients, [p for p in objective.parameters() if p.requires_grad], strict=True):
        torch.testing.assert_close(mine, parameter.grad, rtol=1e-3, atol=1e-4)


def test_no_split_of_a_batch_changes_the_loss() -> None:
    _, objective = made()
    disturb(objective)
    counts = objective.counts(torch.arange(3))
    assert counts.tolist() == [11, 8, 5]
    parts = [objective(torch.tensor(items), counts) for items in ([2, 0], [1])]
    torch.testing.assert_close(sum(parts), objective(torch.tensor([1, 0, 2]), counts))


def test_the_divergence_is_zero_at_the_start_and_only_there() -> None:
    _, objective = made(joint=replace(JOINT, head_share=0.0))
    items = torch.arange(3)
    assert abs(objective(items, objective.counts(items)).item()) < 1e-5
    disturb(objective)
    assert objective(items, objective.counts(items)).item() > 1e-3


def test_adapters_switched_off_are_the_original() -> None:
    plain = tiny_model("llama")
    adapted, objective = made()
    disturb(objective)
    ids = torch.tensor([[257, 72, 105, 259, 3]])
    with adapted.disable_adapter():
        assert torch.equal(adapted(input_ids=ids).logits, plain(input_ids=ids).logits)
    assert not torch.allclose(adapted(input_ids=ids).logits, plain(input_ids=ids).logits, atol=1e-2)


def test_padding_is_seen_by_nobody() -> None:
    _, objective = made()
    disturb(objective)
    alone = torch.cat(list(objective.states(REPLIES)))
    torch.testing.assert_close(objective._rows_of_replies(REPLIES), alone, rtol=1e-4, atol=1e-4)


def test_ramps() -> None:
    assert [RAMPS["constant"](x) for x in (0.0, 0.5, 1.0)] == [1.0, 1.0, 1.0]
    assert [RAMPS["linear"](x) for x in (0.0, 0.5, 1.0)] == [0.0, 0.5, 1.0]
    assert [RAMPS["sine"](x) for x in (0.0, 1 / 3, 1.0)] == pytest.approx([0.0, 0.5, 1.0])
    _, objective = made(joint=replace(JOINT, ramp="linear", head_share=0.4))
    items, losses = torch.arange(3), []
    for progress in (0.0, 0.5, 1.0):
        objective.at(progress)
        losses.append(objective(items, objective.counts(items)).item())
    assert losses[0] < 1e-5
    assert losses[2] == pytest.approx(2 * losses[1], rel=1e-3)


def test_only_adapters_and_heads_are_trained_each_at_its_rate() -> None:
    adapted, objective = made()
    (adapters, slow), (heads, fast) = objective.parameter_groups()
    assert (slow, fast) == (1.0, 4.0)
    trained = {id(parameter) for parameter in [*adapters, *heads]}
    assert trained == {id(p) for p in [*adapted.parameters(), *objective.heads.parameters()] if p.requires_grad}
    names = {name for name, parameter in adapted.named_parameters() if id(parameter) in trained}
    assert all("lora_" in name for name in names)
    frozen = objective.frozen()
    for part in ("embed_tokens.weight", "lm_head.weight", "q_proj.base_layer.weight", "norm.weight"):
        assert any(name.endswith(part) for name in frozen), part
    guard = _Guard(objective, Batches(3, 2, 1))
    guard.check()
    with torch.no_grad():
        adapted.get_base_model().lm_head.weight[0, 0] += 1e-3
    with pytest.raises(Exception, match=r"changed what is frozen.*lm_head"):
        guard.check()


def test_layers_that_are_not_there_are_named() -> None:
    with pytest.raises(ModelUnsupported, match=r"no linear layers called query, w1 .* it has down_proj, gate_proj"):
        add_adapters(tiny_model("llama"), replace(JOINT, targets=("w1", "query", "q_proj")), "tiny", 1)
    with pytest.raises(ModelUnsupported, match="lm_head"):
        add_adapters(tiny_model("llama"), replace(JOINT, targets=("lm_head",)), "tiny", 1)


def test_gpt2s_layers_get_adapters_too() -> None:
    config = AutoConfig.for_model(
        "gpt2", vocab_size=264, n_embd=64, n_layer=2, n_head=4, n_positions=64, bos_token_id=None, eos_token_id=256
    )
    adapted = add_adapters(AutoModelForCausalLM.from_config(config), replace(JOINT, targets=("c_attn",)), "tiny", 1)
    trained = [name for name, parameter in adapted.named_parameters() if parameter.requires_grad]
    assert len(trained) == 4
    assert all(".attn.c_attn.lora_" in name for name in trained)


def test_replies_are_grouped_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medusa_core.train.joint._GROUP_TOKENS", 20)

    def lengths() -> Iterator[list[int]]:
        for group in _groups(sorted(REPLIES, key=lambda r: len(r.prompt_ids) + len(r.token_ids))):
            yield [reply.job for reply in group]

    assert list(lengths()) == [[2, 4], [0]]
