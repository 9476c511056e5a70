"""Whatever is asked, edited, tried again, removed and reopened: the branch shown is that of a model in plain Python."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from app.conversations import ConversationStore, MessageState

TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8)


@dataclass
class Node:
    parent: int | None
    text: str
    chosen: int
    removed: bool = False


class Tree(RuleBasedStateMachine):
    """The store beside a dictionary of nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = ConversationStore(Path(self.folder.name))
        self.nodes: dict[int, Node] = {}
        self.ticks = 0

    @initialize(text=TEXTS)
    def first(self, text: str) -> None:
        question = self.store.messages.ask(text)
        self.conversation = question.conversation
        self.add(question.id, None, text)

    def add(self, message: int, parent: int | None, text: str) -> None:
        self.ticks += 1
        self.nodes[message] = Node(parent, text, self.ticks)

    def is_removed(self, message: int | None) -> bool:
        return message is not None and (self.nodes[message].removed or self.is_removed(self.nodes[message].parent))

    def branch(self) -> list[int]:
        found: list[int] = []
        parent: int | None = None
        while below := [key for key, node in self.nodes.items() if node.parent == parent and not node.removed]:
            parent = max(below, key=lambda key: self.nodes[key].chosen)
            found.append(parent)
        return found

    def pick(self, number: int, *, removed: bool = False) -> int | None:
        there = [key for key in self.nodes if self.is_removed(key) is removed]
        return there[number % len(there)] if there else None

    @rule(text=TEXTS)
    def ask(self, text: str) -> None:
        parent = (self.branch() or [None])[-1]
        self.add(self.store.messages.ask(text, self.conversation).id, parent, text)

    @rule(number=st.integers(0, 99), pieces=st.lists(TEXTS, max_size=4))
    def reply(self, number: int, pieces: list[str]) -> None:
        if (parent := self.pick(number)) is not None:
            writer = self.store.messages.begin_reply(parent)
            for piece in pieces:
                writer.append(piece)
            if len(pieces) % 2:
                writer.finish(MessageState.COMPLETE)
            self.add(writer.message, parent, "".join(pieces))

    @rule(number=st.integers(0, 99), text=TEXTS)
    def edit(self, number: int, text: str) -> None:
        if (old := self.pick(number)) is not None:
            self.add(self.store.messages.edit(old, text).id, self.nodes[old].parent, text)

    @rule(number=st.integers(0, 99))
    def choose(self, number: int) -> None:
        if (message := self.pick(number)) is not None:
            self.store.messages.choose(message)
            self.ticks += 1
            self.nodes[message].chosen = self.ticks

    @rule(number=st.integers(0, 99))
    def remove(self, number: int) -> None:
        if (message := self.pick(number)) is not None:
            self.store.messages.remove(message)
            self.nodes[message].removed = True

    @rule(number=st.integers(0, 99))
    @precondition(lambda self: any(node.removed for node in self.nodes.values()))
    def restore(self, number: int) -> None:
        removed = [key for key, node in self.nodes.items() if node.removed]
        message = removed[number % len(removed)]
        self.store.messages.restore(message)
        self.nodes[message].removed = False

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = ConversationStore(Path(self.folder.name))

    @rule()
    def go_on_in_a_copy(self) -> None:
        copy = self.store.duplicate(self.conversation).id
        assert [m.text for m in self.store.messages.branch(copy)] == [self.nodes[key].text for key in self.branch()]

    @invariant()
    def shows_the_branch(self) -> None:
        if self.nodes:
            shown = self.store.messages.branch(self.conversation)
            assert [(message.id, message.text) for message in shown] == [
                (key, self.nodes[key].text) for key in self.branch()
            ]
            for message in shown:
                variants = [variant.id for variant in self.store.messages.variants(message.id)]
                assert len(variants) == message.variants
                assert variants[message.variant] == message.id

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


TestTree = Tree.TestCase
TestTree.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
