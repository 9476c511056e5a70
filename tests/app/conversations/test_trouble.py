"""What can go wrong with the file: full, read-only, damaged, newer, or open already."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from app.conversations import AlreadyOpen, ConversationStore, MessageState, StoreError, StoreReadOnly, StoreTooNew
from app.conversations.schema import VERSIONS
from app.conversations.store import FILE_NAME
from medusa_core.errors import DiskFull, MedusaError


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
