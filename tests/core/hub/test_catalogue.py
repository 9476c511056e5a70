"""The catalogue is complete, and a broken one is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from medusa_core import hub
from medusa_core.errors import CatalogueError
from medusa_core.hub.catalogue import add_template, heads_state, read_catalogue, trained_models
from medusa_core.hub.listing import is_repo_id
from medusa_core.tiny import tiny_tokenizer

CHAT = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello."},
    {"role": "user", "content": "Bye"},
]
SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, "
    "and polite answers to the user's questions."
)


VICUNA, MISTRAL, ZEPHYR = "lmsys/vicuna-", "mistralai/Mistral-7B-Instruct-v0.2", "HuggingFaceH4/zephyr-7b-beta"
PUBLISHED = {  # all that are known: repository, the model its heads are for, and their format
    ("FasterDecoding/medusa-vicuna-7b-v1.3", f"{VICUNA}7b-v1.3", "medusa-0.1"),
    ("FasterDecoding/medusa-vicuna-13b-v1.3", f"{VICUNA}13b-v1.3", "medusa-0.1"),
    ("FasterDecoding/medusa-vicuna-33b-v1.3", f"{VICUNA}33b-v1.3", "medusa-0.1"),
    ("FasterDecoding/medusa-1.0-vicuna-7b-v1.5", f"{VICUNA}7b-v1.5", "medusa-2"),
    ("FasterDecoding/medusa-1.0-vicuna-13b-v1.5", f"{VICUNA}13b-v1.5", "medusa-2"),
    ("FasterDecoding/medusa-1.0-vicuna-33b-v1.3", f"{VICUNA}33b-v1.3", "medusa-2"),
    ("FasterDecoding/medusa-1.0-zephyr-7b-beta", ZEPHYR, "medusa-2"),
    ("text-generation-inference/Mistral-7B-Instruct-v0.2-medusa", MISTRAL, "tgi-v1"),
    ("text-generation-inference/Mixtral-8x7B-Instruct-v0.1-medusa", "mistralai/Mixtral-8x7B-Instruct-v0.1", "tgi-v1"),
    ("text-generation-inference/gemma-7b-it-medusa", "google/gemma-7b-it", "tgi-v1"),
    ("predibase/Mistral-7B-Instruct-v0.2-medusa", MISTRAL, "tgi-v2"),
    ("predibase/Mistral-7B-Instruct-v0.2-magicoder-medusa", MISTRAL, "tgi-v2"),
    ("philschmid/llama-3-1-8b-instruct-medusa", "meta-llama/Llama-3.1-8B-Instruct", "tgi-v2"),
    ("EmbeddedLLM/Medusa2-Mistral-7B-Instruct-v0.2", MISTRAL, "medusa-2"),
    ("abhigoyal/vllm-medusa-vicuna-7b-v1.3", f"{VICUNA}7b-v1.3", "vllm"),
    ("28Smiles/Mistral-7B-Instruct-v0.2-GPTQ-medusa", MISTRAL, "tgi-v1"),
    ("Narsil/mistral-medusa", MISTRAL, "medusa-0.1"),
    ("Narsil/mistral-medusa2", MISTRAL, "medusa-0.1"),
    ("joaogante/Mistral-7B-Instruct-v0.2-medusa-vicuna", MISTRAL, "medusa-0.1"),
    ("jilijeanlouis/Mistral-7B-Instruct-v0.2-medusa", MISTRAL, "tgi-v1"),
    ("drbh/zephyr_medusa_demo", ZEPHYR, "tgi-v2"),
    ("real-jiakai/zephyr_medusa_demo", ZEPHYR, "tgi-v2"),
    ("charlescao2023/vicuna-13b-v1.5-medusa1-3head", f"{VICUNA}13b-v1.5", "medusa-0.1"),
}
LEFT_OUT = {  # and why
    "FasterDecoding/medusa-1.0-vicuna-33b-v1.5": "named in a list of its makers', but never published",
    "Narsil/vicuna-medusa": "nothing tells its format, or which Vicuna it is for",
    "austinsilveria/medusa-two-decoder-layers": "two decoder layers before the heads: another architecture",
    "ankner/hydra-vicuna-7b-v1.3": "Hydra: each head sees the guesses before it",
    "ankner/hydra-vicuna-13b-v1.3": "Hydra: each head sees the guesses before it",
    "ankner/hydra-vicuna-33b-v1.3": "Hydra: each head sees the guesses before it",
}


def test_every_entry_makes_sense() -> None:
    catalogue = read_catalogue()
    assert len(catalogue.models) > 20
    for entry in catalogue.models:
        assert entry.model == "default" or is_repo_id(entry.model)
        assert all(is_repo_id(heads.repo) for heads in entry.heads)
        assert 0 < entry.embedding < entry.parameters
        assert entry.licence
        # 16 bit weights; some files hold a tied output head twice.
        assert entry.model == "default" or 1.9 < entry.size / entry.parameters < 2.6


def test_models_and_published_heads_that_must_be_there() -> None:
    catalogue = read_catalogue()
    for name in (
        "default",
        "HuggingFaceTB/SmolLM2-360M-Instruct",
        "HuggingFaceTB/SmolLM2-1.7B-Instruct",
        "Qwen/Qwen2.5-0.5B-Instruct",
        "Qwen/Qwen3-0.6B",
        "meta-llama/Llama-3.2-1B-Instruct",
        "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    ):
        assert catalogue.entry(name) is not None
    pairs = [(heads.repo, entry.model, heads.format) for entry in catalogue.models for heads in entry.heads]
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == PUBLISHED
    assert LEFT_OUT.keys().isdisjoint(repo for repo, _, _ in pairs)
    assert catalogue.entry("smollm2-360m-instruct") == catalogue.entry("HuggingFaceTB/SmolLM2-360M-Instruct")
    assert catalogue.entry("nobody/nothing") is None


def test_heads_of_an_entry() -> None:
    catalogue = read_catalogue()
    default, small, vicuna = (catalogue.entry(name) for name in ("default", "Qwen/Qwen3-0.6B", "vicuna-7b-v1.3"))
    assert default is not None
    assert small is not None
    assert vicuna is not None
    shipped = trained_models(hub.resources_folder() / "heads")
    assert shipped == {hub.DEFAULT_MODEL_NAME}
    nobody: frozenset[str] = frozenset()
    assert heads_state(default, shipped=shipped, trained=nobody) == "included"
    assert heads_state(small, shipped=shipped, trained=nobody) == "none yet"
    assert heads_state(vicuna, shipped=shipped, trained=nobody) == "published"
    assert heads_state(vicuna, shipped=shipped, trained=frozenset({"vicuna-7b-v1.3"})) == "trained here"


def test_heads_of_others_do_not_say_what_was_trained_here(tmp_path: Path) -> None:
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"medusa_num_heads": 2}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    assert trained_models(tmp_path) == frozenset()


@pytest.mark.parametrize(
    "name",
    ["lmsys/vicuna-7b-v1.3", "vicuna-7b-v1.3", "FasterDecoding/medusa-1.0-vicuna-7b-v1.5", "medusa-1.0-vicuna-7b-v1.5"],
)
def test_vicunas_template_writes_what_its_makers_do(tmp_path: Path, name: str) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    tokenizer.bos_token = "<s>"
    tokenizer.save_pretrained(tmp_path)
    assert add_template(tmp_path, name) == ["chat_template.jinja"]
    assert add_template(tmp_path, name) == []
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    written = loaded.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=True)
    assert written == f"<s>{SYSTEM} USER: Hi ASSISTANT: Hello.<|end|>USER: Bye ASSISTANT:"
    system = [{"role": "system", "content": "Rhyme."}, *CHAT[:1]]
    assert loaded.apply_chat_template(system, tokenize=False) == "<s>Rhyme. USER: Hi"


def test_a_model_with_a_template_keeps_it_and_unknown_ones_get_none(tmp_path: Path) -> None:
    tiny_tokenizer().save_pretrained(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    assert add_template(tmp_path, "lmsys/vicuna-7b-v1.3") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert add_template(tmp_path / "none", "Maker/Tiny") == []


def broken(change: Any) -> str:
    found = json.loads((hub.resources_folder() / "catalogue.json").read_text(encoding="utf-8"))
    change(found)
    return json.dumps(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[]", "describes nothing"),
        ('{"version": 1}', "lacks models, templates"),
        (broken(lambda found: found.update(version=9)), "version 9"),
        (broken(lambda found: found["models"].append(found["models"][1])), "SmolLM2-360M-Instruct stands there twice"),
        (broken(lambda found: found["models"][1].pop("licence")), "SmolLM2-360M-Instruct lacks licence"),
        (broken(lambda found: found["models"][1].update(stars=5)), "has stars, which is unknown"),
        (broken(lambda found: found["models"][1].update(size="1 GB")), "size of .* is '1 GB'"),
        (broken(lambda found: found["models"][1].update(layers=-1)), "layers of .* is -1"),
        (broken(lambda found: found["models"][1].update(gated=1)), "gated of .* is 1"),
        (broken(lambda found: found["models"][1].update(template="alpaca")), "'alpaca' that is not there"),
        (broken(lambda found: found["models"][1].update(heads={"repo": "a/b"})), "must be a list"),
        (broken(lambda found: found["models"][-1]["heads"][0].update(format="x")), "are in 'x'; known are medusa-0.1"),
        (broken(lambda found: found["models"][-1]["heads"][0].pop("repo")), "heads of .* lacks repo"),
        (broken(lambda found: found.update(templates=["x"])), "texts by name"),
    ],
)
def test_a_broken_catalogue_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "catalogue.json").write_text(text)
    with pytest.raises(CatalogueError, match=rf"catalogue\.json .*{words}.*Install the program again"):
        read_catalogue(tmp_path / "catalogue.json")
