"""A link is opened only after its whole address was shown, and only where it may lead."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from app.theme import Theme
from app.views.link_dialog import LinkDialog, address_in_full
from app.views.reply import Reply


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    addresses: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: addresses.append(QUrl(url).toString()))
    return addresses


@pytest.fixture
def window(qtbot: QtBot, theme: Theme) -> QWidget:
    shown = QWidget()
    qtbot.addWidget(shown)
    shown.show()
    return shown


def test_it_opens_only_when_told_to(window: QWidget, opened: list[str], qtbot: QtBot, qapp: QApplication) -> None:
    for link in ("https://a.example/x?y=1", "mailto:someone@a.example"):
        dialog = LinkDialog(link, window)
        assert link in dialog.address.text()
        dialog.cancel_button.click()
        assert opened == []
        dialog.copy_button.click()
        assert qapp.clipboard().text() == link
        dialog.open_button.click()
        assert opened.pop() == link


@pytest.mark.parametrize("link", ["file:///etc/passwd", "javascript:alert(1)", "ftp://a.example"])
def test_other_schemes_never_open(window: QWidget, opened: list[str], link: str) -> None:
    LinkDialog(link, window).open_link()
    assert opened == []


def test_the_whole_address_is_shown_and_a_look_alike_host_as_it_travels() -> None:
    link = "https://a.example/" + "x" * 200
    assert address_in_full(link).replace("\n", "") == link
    assert "xn--" in address_in_full("https://аpple.com/")  # the first letter is Cyrillic


def test_a_click_on_a_link_asks(qtbot: QtBot, theme: Theme, opened: list[str]) -> None:
    reply = Reply(theme, "greedy")
    qtbot.addWidget(reply)
    reply.show()
    reply.text.link_chosen.emit("https://a.example/")
    dialog = reply.findChild(LinkDialog)
    assert dialog is not None
    assert dialog.isVisible()
    assert dialog.focusWidget() is dialog.cancel_button
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert opened == []
