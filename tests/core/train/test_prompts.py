"""The written prompts: distinct, repeatable, of every kind, and with no slot left open."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from medusa_core.errors import ConfigError
from medusa_core.train import prompt_tasks, prompt_topics, prompts


@pytest.fixture(scope="module")
def many() -> list[prompts.Prompt]:
    return list(prompts.generate_labelled(20_000, seed=1))


def test_twenty_thousand_prompts_are_distinct(many: list[prompts.Prompt]) -> None:
    assert len(many) == len({prompt.text for prompt in many}) == 20_000


def test_no_slot_is_left_open(many: list[prompts.Prompt]) -> None:
    snippets = tuple(prompt_topics.SNIPPETS)
    for _, text in many:
        for snippet in snippets:
            text = text.replace(snippet, "")
        assert not set("[]{}") & set(text), text


def test_articles_fit_the_words_filled_in(many: list[prompts.Prompt]) -> None:
    wrong = [prompt.text for prompt in many if re.search(r"\b[Aa] (?!one-)[aeio]|\b[Aa]n [^aeiouhHS]", prompt.text)]
    assert not wrong[:5]


def test_lengths_suit_a_chat_message(many: list[prompts.Prompt]) -> None:
    lengths = [len(prompt.text) for prompt in many]
    assert min(lengths) >= 8
    assert max(lengths) <= 1500
    assert len(set(lengths)) > 200


def test_every_kind_keeps_coming(many: list[prompts.Prompt]) -> None:
    assert set(Counter(prompt.kind for prompt in many[:200])) == set(prompt_tasks.KINDS)
    by_kind = Counter(prompt.kind for prompt in many)
    assert min(by_kind.values()) > 1000, by_kind


def test_every_topic_and_every_template_is_used(many: list[prompts.Prompt]) -> None:
    text = "\n".join(prompt.text for prompt in many).lower()
    unused = [topic for field in prompt_topics.FIELDS.values() for topic in field if topic.lower() not in text]
    assert not unused
    opened = [task.split("[")[0] for kind in prompt_tasks.KINDS.values() for task in kind]
    assert not [opening for opening in opened if opening.lower() not in text]


def test_same_seed_same_prompts_in_the_same_order() -> None:
    assert list(prompts.generate(300, seed=7)) == list(prompts.generate(300, seed=7))


def test_a_longer_run_begins_with_the_shorter_one() -> None:
    assert list(prompts.generate(400, seed=7))[:300] == list(prompts.generate(300, seed=7))


def test_another_seed_gives_other_prompts() -> None:
    shared = set(prompts.generate(300, seed=7)) & set(prompts.generate(300, seed=8))
    assert len(shared) < 30


def test_the_stock_is_as_large_as_it_should_be() -> None:
    all_topics = [topic for field in prompt_topics.FIELDS.values() for topic in field]
    assert len(all_topics) == len(set(all_topics)) >= 220
    assert sum(map(len, prompt_tasks.KINDS.values())) >= 60
    assert len(set(prompt_tasks.FOLLOWUPS)) == len(prompt_tasks.FOLLOWUPS) >= 40


@pytest.mark.parametrize("count", [-1, prompts.MAX_PROMPTS + 1])
def test_a_count_out_of_range_is_refused_before_the_first_prompt(count: int) -> None:
    with pytest.raises(ConfigError, match=str(count)):
        prompts.generate(count, seed=0)


def test_a_slot_named_twice_has_one_value_and_numbered_slots_differ() -> None:
    puzzles = [text for text in prompts.generate(3000, seed=3) if "is taller than" in text]
    assert puzzles
    for text in puzzles:
        first, second = text.split(". ")[0].split(", and ")
        taller, middle = first.split(" is taller than ")
        middle_again, shortest = second.split(" is taller than ")
        assert middle == middle_again
        assert len({taller, middle, shortest}) == 3, text


def test_followups_depend_on_the_seed_alone() -> None:
    assert prompts.followup(5) == prompts.followup(5)
    assert len({prompts.followup(seed) for seed in range(1000)}) == len(prompt_tasks.FOLLOWUPS)
