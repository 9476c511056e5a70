"""The two menus of the decoding panel: of all of it, and of a node of the tree. Knows nothing of what they do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QWidget

from app.views import tree_words as words
from medusa_core.events import Finished, NodeState, Step

Do = Callable[[], object]
STEERABLE = (NodeState.REJECTED, NodeState.UNREACHED)
_PREVIEW = 40  # characters of what would be written


def panel_menu(
    parent: QWidget,
    table: QAction,
    *,
    copy_table: Do,
    zoom: Callable[[float], object],
    fit: Do,
    save: Do | None,
    open_file: Do,
    examples: Sequence[tuple[str, Do]],
    export: Do,
) -> QMenu:
    """Everything that needs no button of its own; `save` is None where there is no whole reply to save."""
    menu = QMenu(parent)
    menu.addAction(table)
    menu.addAction("Copy the table", copy_table)
    menu.addSeparator()
    menu.addAction("Zoom in (+)", partial(zoom, 1.25))
    menu.addAction("Zoom out (−)", partial(zoom, 0.8))
    menu.addAction("Fit the tree (0)", fit)
    menu.addSeparator()
    action = menu.addAction("Save this reply as a recording…")
    action.setEnabled(save is not None)
    if save is not None:
        action.triggered.connect(save)
    menu.addAction("Open a recording…", open_file)
    for title, show in examples:
        menu.addAction(f"Explore: {title}", show)
    menu.addSeparator()
    menu.addAction("Export this page of charts…", export)
    return menu


def node_menu(parent: QWidget, step: Step, index: int, *, steer: Do, reason: str, copy: Do) -> QMenu:
    """What can be done with a node; `reason` says why the reply cannot be steered now."""
    menu = QMenu(parent)
    menu.setToolTipsVisible(True)
    if step.nodes[index].state in STEERABLE:
        action = menu.addAction(f"Continue the reply from here: {preview(step, index)}", steer)
        action.setEnabled(not reason)
        action.setToolTip(reason or "Writes these words and lets the model go on, as a new variant of the reply")
        if reason:
            menu.addAction(reason).setEnabled(False)
    menu.addAction("Copy these numbers", copy)
    return menu


def path_to(step: Step, index: int) -> list[int]:
    """The nodes from the root to this one."""
    path = [index]
    while path[-1]:
        path.append(step.nodes[path[-1]].parent)
    return path[::-1]


def steered(steps: Sequence[Step], step: Step, index: int, finished: Finished | None) -> tuple[int, ...]:
    """The tokens of the whole reply up to and including a node of `step`; `steps` are all of its steps."""
    path = tuple(step.nodes[node].token_id for node in path_to(step, index))
    before = tuple(token for each in steps[: step.index] for token in each.token_ids)
    if finished is not None:
        # A reply may begin, or have gone on, with tokens that no step wrote; only its end tells them.
        whole, here = finished.token_ids, (*before, *step.token_ids)
        if whole[: len(here)] != here:
            before = whole[: len(whole) - sum(len(each.token_ids) for each in steps[step.index :])]
    return (*before, *path)


def preview(step: Step, index: int) -> str:
    """The words that steering to a node would write."""
    text = "".join(step.nodes[node].text for node in path_to(step, index))
    text = words.visible(text).replace("␠", " ").replace("&", "&&")
    return f"“{text if len(text) <= _PREVIEW else f'…{text[-_PREVIEW:]}'}”"
