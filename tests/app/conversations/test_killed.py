"""A process killed in the middle of a reply: what it had saved is there, and the reply is marked as cut."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from app.conversations import ConversationStore, MessageState

ROOT = Path(__file__).resolve().parents[3]
_WRITE = """
import sys
from pathlib import Path
from app.conversations import ConversationStore

store = ConversationStore(Path(sys.argv[1]))
writer = store.messages.begin_reply(store.messages.ask("q").id)
for number in range(10_000):
    writer.append(f"token-{number} é ")
    print(number, flush=True)
"""


def test_text_saved_before_a_kill_is_there_afterwards(tmp_path: Path) -> None:
    folder = tmp_path / "profile é"
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITE, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    assert process.stdout is not None
    saved = -1
    for line in process.stdout:
        saved = int(line)
        if saved >= 200:
            break
    process.kill()
    process.wait()
    process.stdout.close()
    store = ConversationStore(folder)  # and the dead process' lock does not keep us out
    (line,) = store.conversations()
    reply = store.messages.branch(line.id)[1]
    store.close()
    assert saved >= 200
    assert reply.text.startswith("".join(f"token-{number} é " for number in range(saved + 1)))
    assert reply.state is MessageState.CUT
    assert store.cut_replies == [reply.id]
