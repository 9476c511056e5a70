"""The conversation store: a tree of messages that survives kills, full disks, damage and newer versions."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.conversations import (
    AlreadyOpen,
    ConversationStore,
    Figures,
    Message,
    MessageState,
    Role,
    StoreError,
    StoreReadOnly,
    StoreTooNew,
    state_after,
)
from app.conversations.records import title_from
from app.conversations.schema import VERSIONS, migrate, version_of
from app.conversations.store import FILE_NAME
from medusa_core.errors import DiskFull, MedusaError
from medusa_core.events import Finished, Step, StopReason
from medusa_core.testing import scripted_reply


class Clock:
    """A time that only tests move."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        self.time += 1
        return self.time


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "profile é ☃ 世界"


@pytest.fixture
def open_store(folder: Path) -> Iterator[Callable[[], ConversationStore]]:
    opened: list[ConversationStore] = []

    def open_one() -> ConversationStore:
        for store in opened:
            store.close()
        opened[:] = [ConversationStore(folder, "socket-name", Clock())]
        return opened[0]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[[], ConversationStore]) -> ConversationStore:
    return open_store()


def answer(store: ConversationStore, question: Message, text: str) -> Message:
    writer = store.messages.begin_reply(question.id)
    writer.append(text)
    writer.finish(MessageState.COMPLETE)
    return store.messages.get(writer.message)


def shown(store: ConversationStore, conversation: int) -> list[str]:
    return [message.text for message in store.messages.branch(conversation)]


# The list


def test_a_first_question_makes_a_conversation_named_after_it(store: ConversationStore) -> None:
    question = store.messages.ask("\n  How do   cats\tpurr?\nAnd why?")
    (line,) = store.conversations()
    assert (line.id, line.title) == (question.conversation, "How do cats purr?")
    assert (question.role, question.state, question.parent) == (Role.USER, MessageState.COMPLETE, None)


def test_a_long_title_is_cut_at_a_word() -> None:
    title = title_from("Please explain " + "many words " * 20)
    assert len(title) <= 61
    assert title.endswith(("many…", "words…"))
    assert title_from("x" * 100) == "x" * 60 + "…"
    assert title_from(" \n") == ""


def test_renaming_keeps_the_date_and_takes_no_empty_title(store: ConversationStore) -> None:
    conversation = store.messages.ask("a").conversation
    before = store.get(conversation).updated
    store.rename(conversation, "  Cats\nand dogs ")
    store.rename(conversation, "  ")
    assert (store.get(conversation).title, store.get(conversation).updated) == ("Cats and dogs", before)


def test_pinned_ones_stand_first_then_the_newest(store: ConversationStore) -> None:
    first, second, third = (store.messages.ask(text).conversation for text in "abc")
    store.pin(first, pinned=True)
    store.messages.ask("more", second)
    assert [line.id for line in store.conversations()] == [first, second, third]
    store.pin(first, pinned=False)
    assert [line.id for line in store.conversations()] == [second, third, first]


def test_deleting_can_be_undone_until_it_is_purged(store: ConversationStore) -> None:
    kept, gone = store.messages.ask("kept").conversation, store.messages.ask("gone").conversation
    store.delete(gone)
    assert [line.id for line in store.conversations()] == [kept]
    assert [line.id for line in store.deleted()] == [gone]
    assert store.search("gone") == []
    store.purge(older_than_seconds=1000)
    store.restore(gone)
    assert shown(store, gone) == ["gone"]
    store.delete(gone)
    store.purge(older_than_seconds=0)
    with pytest.raises(KeyError, match=str(gone)):
        store.get(gone)
    assert store.deleted() == []


def test_deleting_all_can_be_undone(store: ConversationStore) -> None:
    for text in "abc":
        store.messages.ask(text)
    gone = store.delete_all()
    assert store.conversations() == []
    for conversation in gone:
        store.restore(conversation)
    assert {line.title for line in store.conversations()} == set("abc")


def test_a_copy_has_every_branch_and_is_a_conversation_of_its_own(store: ConversationStore) -> None:
    question = store.messages.ask("q")
    writer = store.messages.begin_reply(question.id, Figures(model="m"))
    writer.append("one", scripted_reply(3))
    writer.finish(MessageState.COMPLETE)
    answer(store, question, "two")
    store.messages.remove(answer(store, question, "removed").id)
    writing = store.messages.begin_reply(question.id)
    writing.append("half ")
    copy = store.duplicate(question.conversation)
    writing.append("and half")
    writing.finish(MessageState.COMPLETE)
    assert shown(store, copy.id) == ["q", "half "]
    variants = store.messages.variants(store.messages.branch(copy.id)[1].id)
    assert [variant.text for variant in variants] == ["one", "two", "half "]
    assert variants[2].state is MessageState.CUT
    assert variants[0].figures == Figures(model="m")
    assert store.steps(variants[0].id) == store.steps(writer.message) != []
    assert shown(store, question.conversation) == ["q", "half and half"]
    store.messages.ask("more", copy.id)
    assert len(store.messages.branch(question.conversation)) == 2


def test_a_copy_of_a_conversation_with_nothing_left_in_it(store: ConversationStore) -> None:
    question = store.messages.ask("q")
    store.messages.remove(question.id)
    assert shown(store, store.duplicate(question.conversation).id) == []


# The tree


def test_editing_a_question_keeps_the_old_branch(store: ConversationStore) -> None:
    question = store.messages.ask("q")
    reply = answer(store, question, "a")
    edited = store.messages.edit(question.id, "q, better")
    answer(store, edited, "a, better")
    assert shown(store, question.conversation) == ["q, better", "a, better"]
    assert store.messages.beside(edited.id, -1).id == question.id
    assert shown(store, question.conversation) == ["q", "a"]
    assert store.messages.branch(question.conversation)[1].id == reply.id
    assert [(m.variant, m.variants) for m in store.messages.branch(question.conversation)] == [(0, 2), (0, 1)]


def test_trying_again_makes_a_variant_and_the_choice_is_remembered(
    store: ConversationStore, open_store: Callable[[], ConversationStore]
) -> None:
    question = store.messages.ask("q")
    first, second = answer(store, question, "one"), answer(store, question, "two")
    store.messages.ask("and?", question.conversation)
    store.messages.choose(first.id)
    assert shown(store, question.conversation) == ["q", "one"]
    assert store.messages.beside(first.id, -1).id == first.id
    store = open_store()
    assert shown(store, question.conversation) == ["q", "one"]
    assert store.messages.beside(first.id, 1).id == second.id
    assert shown(store, question.conversation) == ["q", "two", "and?"]
    assert store.messages.beside(second.id, 1).id == second.id


def test_revealing_a_message_shows_its_branch(store: ConversationStore) -> None:
    question = store.messages.ask("q")
    first = answer(store, question, "one")
    deep = store.messages.ask("deep", question.conversation)
    answer(store, question, "two")
    store.messages.edit(question.id, "other")
    assert shown(store, question.conversation) == ["other"]
    store.messages.reveal(deep.id)
    assert shown(store, question.conversation) == ["q", "one", "deep"]
    assert store.messages.get(deep.id).parent == first.id


def test_removing_a_message_takes_what_follows_and_both_come_back(store: ConversationStore) -> None:
    question = store.messages.ask("q")
    answer(store, question, "one")
    two = answer(store, question, "two")
    more = store.messages.ask("more", question.conversation)
    store.messages.remove(two.id)
    assert shown(store, question.conversation) == ["q", "one"]
    assert store.search("more") == []
    store.messages.restore(two.id)
    assert shown(store, question.conversation) == ["q", "two", "more"]
    store.messages.remove(more.id)
    store.messages.remove(question.id)
    assert shown(store, question.conversation) == []
    store.messages.restore(more.id)  # stays away with the question
    assert shown(store, question.conversation) == []
    store.messages.restore(question.id)
    assert shown(store, question.conversation) == ["q", "two", "more"]
    store.messages.remove(two.id)
    store.purge(older_than_seconds=0)
    assert shown(store, question.conversation) == ["q", "one"]


# A reply on its way


def test_text_is_there_as_soon_as_it_is_appended(store: ConversationStore, folder: Path) -> None:
    question = store.messages.ask("q")
    writer = store.messages.begin_reply(question.id, Figures(model="m", rule="greedy", seed=7))
    for text in ("Hello ", "", "wörld\0 ", "👩‍👧"):
        writer.append(text)
    other = sqlite3.connect(folder / FILE_NAME)
    pieces = other.execute("SELECT text FROM piece ORDER BY id").fetchall()
    other.close()
    assert "".join(piece[0] for piece in pieces) == "Hello wörld\0 👩‍👧"
    reply = store.messages.branch(question.conversation)[1]
    assert (reply.text, reply.state) == ("Hello wörld\0 👩‍👧", MessageState.STREAMING)
    figures = Figures("m", "greedy", 7, 4, 20.0, 2.0, 0.1, "stop")
    writer.finish(MessageState.COMPLETE, figures)
    reply = store.messages.branch(question.conversation)[1]
    assert (reply.text, reply.state, reply.figures) == ("Hello wörld\0 👩‍👧", MessageState.COMPLETE, figures)
    assert store.database.read("SELECT * FROM piece") == []


def test_a_token_costs_one_new_row_however_long_the_text(store: ConversationStore) -> None:
    writer = store.messages.begin_reply(store.messages.ask("q").id)
    writer.append("x" * 100_000)
    statements: list[str] = []
    connection = store.database._connection
    connection.set_trace_callback(statements.append)
    writer.append("y")
    connection.set_trace_callback(None)
    assert [statement.split()[0] for statement in statements] == ["BEGIN", "INSERT", "COMMIT"]


def test_a_reply_of_a_dead_process_is_cut_and_can_go_on(
    store: ConversationStore, open_store: Callable[[], ConversationStore]
) -> None:
    question = store.messages.ask("q")
    writer = store.messages.begin_reply(question.id, Figures(model="m"))
    events = scripted_reply(40)
    writer.append("half ", events[:30])
    store = open_store()
    assert store.cut_replies == [writer.message]
    reply = store.messages.get(writer.message)
    assert (reply.text, reply.state, reply.figures) == ("half ", MessageState.CUT, Figures(model="m"))
    assert [hit.message for hit in store.search("half")] == [reply.id]
    steps = [event for event in store.steps(reply.id) if isinstance(event, Step)]
    assert len(steps) >= 16
    writer = store.messages.continue_reply(reply.id)
    first = next(event for event in events if isinstance(event, Step) and event.spans)
    writer.append("done", [first])
    writer.finish(MessageState.COMPLETE, replace(writer.figures, tokens=2))
    assert store.messages.get(reply.id).text == "half done"
    assert store.steps(reply.id)[-1] == first
    assert open_store().cut_replies == []


def test_steps_come_back_as_they_were_and_take_little_room(store: ConversationStore) -> None:
    writer = store.messages.begin_reply(store.messages.ask("q").id)
    events = scripted_reply(60)
    for event in events:
        writer.append("t", [event])
    finished = events[-1]
    assert isinstance(finished, Finished)
    writer.finish(state_after(finished.reason), writer.figures.measured(events, "stop"))
    steps = store.steps(writer.message)
    assert [event for event in steps if isinstance(event, Step | Finished)] == [
        event for event in events if isinstance(event, Step | Finished)
    ]
    figures = store.messages.get(writer.message).figures
    assert figures is not None
    assert (figures.tokens, figures.tokens_per_step) == (finished.tokens, finished.tokens_per_step)
    assert figures.first_token_seconds == pytest.approx(0.2 + 0.03)
    assert figures.ending == "stop"
    size = store.database.read("SELECT sum(length(events)) FROM steps")[0][0]
    assert size / sum(isinstance(event, Step) for event in steps) < 1500  # bytes


def test_damaged_steps_are_named_and_leave_the_text(store: ConversationStore) -> None:
    writer = store.messages.begin_reply(store.messages.ask("q").id)
    writer.append("text", scripted_reply(3))
    writer.finish(MessageState.COMPLETE)
    with store.database.writing() as connection:
        connection.execute("UPDATE steps SET events = x'00'")
    with pytest.raises(StoreError, match="text is not affected"):
        store.steps(writer.message)
    assert store.messages.get(writer.message).text == "text"


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (StopReason.STOP, MessageState.COMPLETE),
        (StopReason.CANCELLED, MessageState.STOPPED),
        (StopReason.LENGTH, MessageState.CUT),
        (StopReason.CONTEXT_FULL, MessageState.CUT),
    ],
)
def test_how_a_reply_ended(reason: StopReason, state: MessageState) -> None:
    assert state_after(reason) is state


def test_text_that_utf8_cannot_hold_keeps_its_length(store: ConversationStore) -> None:
    assert store.messages.ask("a\ud83d b").text == "a\ufffd b"


# What can go wrong


def test_a_full_disk_is_named_and_nothing_is_lost(store: ConversationStore) -> None:
    question = store.messages.ask("q")
    writer = store.messages.begin_reply(question.id)
    writer.append("before ")
    connection = store.database._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    lost = "x" * 100_000
    with pytest.raises(DiskFull, match="Make room"):
        writer.append(lost)
    with pytest.raises(DiskFull):
        writer.finish(MessageState.COMPLETE)
    assert store.messages.branch(question.conversation)[1].text == "before "
    connection.execute("PRAGMA max_page_count = 1000000")
    writer.append(" after")
    writer.finish(MessageState.COMPLETE)
    assert store.messages.branch(question.conversation)[1].text == "before " + lost + " after"


def test_a_file_that_takes_no_writing_is_named(store: ConversationStore) -> None:
    store.messages.ask("q")
    store.database._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(StoreReadOnly, match="--profile"):
        store.messages.ask("another")
    assert [line.title for line in store.conversations()] == ["q"]


def test_a_folder_that_takes_no_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    with pytest.raises(StoreReadOnly, match="--profile"):
        ConversationStore(tmp_path / "file" / "profile")
    assert (tmp_path / "file").read_text(encoding="utf-8") == "in the way"


@pytest.mark.parametrize("damage", ["garbage", "short", "page", "foreign"])
def test_a_damaged_file_is_kept_aside_and_a_new_one_begun(folder: Path, damage: str) -> None:
    store = ConversationStore(folder)
    for number in range(30):
        store.messages.ask(f"question {number} " + "words " * 200)
    store.close()
    path = folder / FILE_NAME
    if damage == "foreign":
        path.unlink()
        foreign = sqlite3.connect(path)
        foreign.execute("CREATE TABLE something (else_)")
        foreign.close()
    whole = path.read_bytes()
    broken = {"garbage": b"no database " * 1000, "short": whole[:30], "foreign": whole}.get(
        damage, whole[:4096] + b"\xff" * 8192 + whole[12_288:]
    )
    path.write_bytes(broken)
    for number in (1, 2):
        store = ConversationStore(folder)
        assert store.kept_aside == folder / f"conversations.broken-{number}.db"
        assert store.kept_aside.read_bytes() == broken
        assert store.conversations() == []
        store.messages.ask("new")
        store.close()
        path.write_bytes(broken)


def test_damage_met_while_running_is_named_and_the_file_checked_at_the_next_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ConversationStore(folder)
    conversation = store.messages.ask("words " * 5000).conversation
    store.close()
    monkeypatch.setattr("app.conversations.database._ALWAYS_CHECKED", 0)
    path = folder / FILE_NAME
    whole = path.read_bytes()
    roots = sqlite3.connect(path)
    page = roots.execute("SELECT rootpage FROM sqlite_master WHERE name = 'message'").fetchone()[0]
    roots.close()
    path.write_bytes(whole[: (page - 1) * 4096] + b"\xff" * 4096 + whole[page * 4096 :])
    store = ConversationStore(folder)
    assert store.kept_aside is None
    with pytest.raises(StoreError, match="damaged"):
        store.messages.branch(conversation)
    store.close()
    store = ConversationStore(folder)
    assert store.kept_aside is not None
    store.close()


def test_a_newer_version_is_left_as_it_is(folder: Path) -> None:
    store = ConversationStore(folder)
    store.messages.ask("q")
    store.close()
    path = folder / FILE_NAME
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match="99"):
        ConversationStore(folder)
    assert path.read_bytes() == before
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {len(VERSIONS)}")
    connection.close()
    store = ConversationStore(folder)  # the failed one left no lock behind
    assert [line.title for line in store.conversations()] == ["q"]
    store.close()


def test_a_second_process_learns_of_the_first(store: ConversationStore, folder: Path) -> None:
    with pytest.raises(AlreadyOpen) as caught:
        ConversationStore(folder)
    assert caught.value.owner is not None
    assert caught.value.owner.address == "socket-name"
    assert str(caught.value.owner.pid) in str(caught.value)
    store.messages.ask("still works")
    store.close()
    ConversationStore(folder).close()


def test_another_thread_is_refused(store: ConversationStore) -> None:
    caught: list[BaseException] = []

    def use() -> None:
        try:
            store.conversations()
        except MedusaError as error:
            caught.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert "thread" in str(caught[0])


# Versions


def version_1(path: Path) -> None:
    """A file as the first version wrote it."""
    path.parent.mkdir(parents=True)
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, VERSIONS[:1])
    connection.execute("INSERT INTO conversation (title, created, updated) VALUES ('Große Katzen', 1, 2)")
    for row in ((1, None, "user", "Wie groß?", "complete"), (1, 1, "assistant", "Sehr gr", "streaming")):
        connection.execute(
            "INSERT INTO message (conversation, parent, role, text, state, created, chosen) "
            "VALUES (?, ?, ?, ?, ?, 1, 1)",
            row,
        )
    connection.execute("INSERT INTO piece (message, text) VALUES (2, 'oß.')")
    connection.close()


def test_a_file_of_version_1_becomes_one_of_this(folder: Path) -> None:
    version_1(folder / FILE_NAME)
    store = ConversationStore(folder)
    assert shown(store, 1) == ["Wie groß?", "Sehr groß."]
    assert store.cut_replies == [2]
    assert [hit.message for hit in store.search("große")] == [None]
    assert {hit.message for hit in store.search("groß")} == {None, 1, 2}
    store.close()


def test_a_migration_that_fails_leaves_the_old_version_whole(folder: Path) -> None:
    path = folder / FILE_NAME
    version_1(path)
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, (*VERSIONS, ("CREATE TABLE extra (a)", "nonsense")))
    assert version_of(connection) == len(VERSIONS)
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
    assert "extra" not in tables
    assert connection.execute("SELECT text FROM message WHERE id = 1").fetchone()[0] == "Wie groß?"
    connection.close()


# Size


@pytest.mark.parametrize("name", ["LIST", "BRANCH_MESSAGES"])
def test_queries_use_their_index(store: ConversationStore, name: str) -> None:
    from app.conversations import messages
    from app.conversations import store as stores

    statement = getattr(stores if name == "LIST" else messages, name)
    plan = store.database.read(f"EXPLAIN QUERY PLAN {statement}", {"conversation": 1})
    scans = [row["detail"] for row in plan if row["detail"].startswith("SCAN")]
    assert all("branch" in scan or "USING INDEX" in scan or "CONSTANT" in scan for scan in scans), scans
    sorts = [row["detail"] for row in plan if "TEMP B-TREE" in row["detail"]]
    assert name == "BRANCH_MESSAGES" or not sorts
