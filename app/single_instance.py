"""The first window of a profile listens; a second start calls it to the front and leaves. Knows nothing of windows."""

from __future__ import annotations

import hashlib
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket

_PATIENCE_MS = 1500
_CALL, _ANSWER = b"to the front\n", b"here\n"


def address_of(profile: Path) -> str:
    """The name of the socket that belongs to a profile."""
    return "medusa-chat-" + hashlib.sha256(str(profile.absolute()).encode("utf-8", "surrogatepass")).hexdigest()[:16]


class Doorbell(QObject):
    """Listens from `listen` on. Where that is not possible, a second start says so instead of calling."""

    rung = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._greet)

    def listen(self, address: str) -> bool:
        """Call only while holding the profile: what a dead process left of its socket is removed."""
        QLocalServer.removeServer(address)
        return self._server.listen(address)

    def close(self) -> None:
        """Listen no longer."""
        self._server.close()

    def _greet(self) -> None:
        caller = self._server.nextPendingConnection()
        caller.disconnected.connect(caller.deleteLater)
        caller.readyRead.connect(self._hear)

    def _hear(self) -> None:
        caller = self.sender()
        if isinstance(caller, QLocalSocket) and caller.canReadLine() and caller.readLine().data() == _CALL:
            caller.write(_ANSWER)
            caller.flush()
            self.rung.emit()


def ring(address: str) -> bool:
    """Call the first window to the front; False where nobody answers."""
    socket = QLocalSocket()
    socket.connectToServer(address)
    if not address or not socket.waitForConnected(_PATIENCE_MS):
        return False
    socket.write(_CALL)
    socket.waitForBytesWritten(_PATIENCE_MS)
    answered = socket.canReadLine() or (socket.waitForReadyRead(_PATIENCE_MS) and socket.canReadLine())
    return bool(answered) and socket.readLine().data() == _ANSWER
