"""Save a picture of the screen as a small PNG: 256 colours, chosen for what is in it. Knows nothing of windows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PySide6.QtGui import QImage, QImageWriter

COLOURS = 256
_ROUNDS = 8  # of moving each palette colour to the middle of what it stands for
_RARE = 24  # of the palette, chosen where the others are far off: small marks keep their hue


def save(image: QImage, path: Path) -> None:
    """Write the file. Raises OSError."""
    picture = image.convertToFormat(QImage.Format.Format_RGB32)
    width, height = picture.width(), picture.height()
    rows = np.frombuffer(picture.constBits(), np.uint8).reshape(height, picture.bytesPerLine() // 4, 4)
    pixels = np.ascontiguousarray(rows[:, :width, :3])
    packed = pixels.reshape(-1, 3).astype(np.uint32) @ np.array([1, 256, 65536], np.uint32)
    found, place, counts = np.unique(packed, return_inverse=True, return_counts=True)
    colours = np.stack([found & 255, found >> 8 & 255, found >> 16 & 255], axis=1).astype(np.float64)
    table = palette(colours, counts)
    indices = np.zeros((height, (width + 3) // 4 * 4), np.uint8)  # Qt's lines are of whole words
    indices[:, :width] = nearest(colours, table)[place].reshape(height, width)
    result = QImage(indices.tobytes(), width, height, indices.shape[1], QImage.Format.Format_Indexed8)
    result.setColorTable([int(0xFF000000 | int(r) << 16 | int(g) << 8 | int(b)) for b, g, r in table.round()])
    writer = QImageWriter(str(path))
    writer.setCompression(100)
    if not writer.write(result):
        raise OSError(f"{path} could not be written: {writer.errorString()}")


def palette(colours: npt.NDArray[np.float64], counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """(C, 3) colours and how often each occurs -> at most 256 colours to draw them with."""
    if len(colours) <= COLOURS:
        return colours
    table = colours[np.argsort(counts)[::-1][: COLOURS - _RARE]]
    for _ in range(_RARE):
        distance = ((colours - table[nearest(colours, table)]) ** 2).sum(1)
        table = np.vstack([table, colours[np.argmax(distance)]])
    exact = table[:16].copy()  # surfaces and text stay what the theme says
    for _ in range(_ROUNDS):
        place = nearest(colours, table)
        weight = np.bincount(place, counts, len(table))
        for channel in range(3):
            total = np.bincount(place, counts * colours[:, channel], len(table))
            table[:, channel] = np.where(weight > 0, total / np.maximum(weight, 1), table[:, channel])
        table[:16] = exact
    return table


def nearest(colours: npt.NDArray[np.float64], table: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """For each colour the index of the one in the table that comes closest."""
    distance = (colours**2).sum(1)[:, None] - 2 * colours @ table.T + (table**2).sum(1)
    found: npt.NDArray[np.intp] = np.argmin(distance, axis=1)
    return found
