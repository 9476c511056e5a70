"""Models whose only tokenizer is a sentencepiece file, as Vicuna's: loaded, and their replies read as they are."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import torch

from medusa_core import cli, hub
from medusa_core.backbone import cost

_SENTENCES = ("Hello world, this is a small text.", "The quick brown fox jumps over the lazy dog.", "Grüße, 世界!")
_VOCABULARY = 340


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny llama with a `tokenizer.model` made here and no tokenizer.json."""
    import sentencepiece
    from transformers import LlamaConfig, LlamaForCausalLM

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_SENTENCES * 20),
        model_writer=written,
        vocab_size=_VOCABULARY,
        model_type="bpe",
        byte_fallback=True,
        minloglevel=2,
    )
    config = LlamaConfig(
        vocab_size=_VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "Tiny")
    (tmp_path / "Tiny" / "tokenizer.model").write_bytes(written.getvalue())
    about = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    about |= {"chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }} {% endfor %}assistant:"}
    (tmp_path / "Tiny" / "tokenizer_config.json").write_text(json.dumps(about), encoding="utf-8")
    return tmp_path / "Tiny"


def test_it_answers_and_keeps_the_spaces(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoTokenizer

    monkeypatch.setattr(hub, "default_cache", lambda profile=None: tmp_path / "models")
    for name, value in (("_ROUNDS", 1), ("_LEAST_ROUNDS", 1), ("_BRIEF_SECONDS", 0.0)):
        monkeypatch.setattr(cost, name, value)
    log = tmp_path / "log"
    model = ("--model", str(folder), "--dtype", "fp32", "--device", "cpu", "--heads", "none")
    assert cli.main(["generate", *model, "--prompt", "Hi", "--max-new-tokens", "24", "--json", str(log)]) == 0
    assert "tiktoken" not in capsys.readouterr().err
    finished = json.loads(log.read_text(encoding="utf-8").splitlines()[-1])
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    assert finished["text"] == tokenizer.decode(finished["token_ids"], skip_special_tokens=True)
    assert " " in finished["text"].strip()
