"""A user's own prompts: three ways to write one, and every wrong line named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medusa_core.errors import ConfigError
from medusa_core.prompt_file import FilePrompt, digest, read_prompts


def test_three_ways_to_write_one(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    talk = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "One?"},
        {"role": "assistant", "content": "Two."},
        {"role": "user", "content": "Three?"},
        {"role": "assistant", "content": "not asked for"},
    ]
    lines = [{"prompt": "Why? é"}, {"turns": ["First", "Second", "Third"]}, {"messages": talk}, {"turns": ["Alone"]}]
    path.write_text("\ufeff" + "\n\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    user = [({"role": "user", "content": text},) for text in ("Why? é", "First", "Alone")]
    assert read_prompts(path) == [
        FilePrompt(user[0]),
        FilePrompt(user[1], "Second"),
        FilePrompt(tuple(talk[:4])),
        FilePrompt(user[2]),
    ]


def test_a_name_and_a_category_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    lines = [{"question_id": 81, "category": "writing", "turns": ["a"]}, {"id": "b2", "prompt": "b"}, {"prompt": "c"}]
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    prompts = read_prompts(path)
    assert [(prompt.name, prompt.category) for prompt in prompts] == [("81", "writing"), ("b2", ""), ("", "")]
    assert digest(prompts[:1]) == digest([FilePrompt(prompts[0].messages)]), "what it asks is what counts"


def test_its_name_follows_what_it_says(tmp_path: Path) -> None:
    one, other = FilePrompt(({"role": "user", "content": "a"},)), FilePrompt(({"role": "user", "content": "b"},))
    assert digest([one, other]) == digest([one, other])
    assert (
        len({digest([one, other]), digest([other, one]), digest([one]), digest([one, FilePrompt(one.messages, "x")])})
        == 4
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is not JSON"),
        ("[]", "line 2 has none of the keys"),
        ('{"text": "a"}', "line 2 has none of the keys"),
        ('{"turns": []}', "line 2: turns must be a list of texts"),
        ('{"turns": ["a", 3]}', "line 2: turns must be a list of texts"),
        ('{"prompt": " "}', "line 2: prompt must be a text"),
        ('{"messages": "a"}', "line 2: messages must be"),
        ('{"messages": [{"role": "system", "content": "a"}]}', "line 2: messages must be"),
        ('{"messages": [{"role": "king", "content": "a"}]}', "line 2: messages must be"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "good"}\n' + line, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_prompts(path)


def test_a_file_that_is_not_there_or_empty(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_prompts(tmp_path / "nowhere")
    (tmp_path / "latin").write_bytes(b'{"prompt": "\xe9"}')
    with pytest.raises(ConfigError, match="cannot be read"):
        read_prompts(tmp_path / "latin")
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds no prompts"):
        read_prompts(tmp_path / "empty")
