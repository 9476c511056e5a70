"""The pictures' palette keeps what is in a picture, and every picture of the list is in docs/, small enough."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import screenshots
from palette_png import COLOURS, palette, save
from PySide6.QtGui import QColor, QImage, QPainter


def test_few_colours_are_kept_as_they_are(tmp_path: Path) -> None:
    image = QImage(61, 40, QImage.Format.Format_RGB32)
    image.fill(QColor("#fdfdfb"))
    painter = QPainter(image)
    painter.fillRect(3, 4, 20, 10, QColor("#00785a"))
    painter.fillRect(30, 4, 1, 1, QColor("#b84c00"))
    painter.end()
    save(image, tmp_path / "picture ☃.png")
    again = QImage(str(tmp_path / "picture ☃.png"))
    assert again.size() == image.size()
    assert again.convertToFormat(QImage.Format.Format_RGB32) == image


def test_of_many_colours_the_frequent_ones_stay_and_rare_marks_keep_their_hue() -> None:
    greys = np.repeat(np.linspace(0, 255, 1000)[:, None], 3, axis=1)
    mark = np.array([[0.0, 80.0, 250.0]])
    counts = np.ones(1001, np.int64)
    counts[500] = 100_000
    table = palette(np.vstack([greys, mark]), counts)
    assert len(table) <= COLOURS
    assert (table == greys[500]).all(1).any()
    assert np.abs(table - mark).sum(1).min() < 30


def test_a_picture_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="could not be written"):
        save(QImage(4, 4, QImage.Format.Format_RGB32), tmp_path / "nowhere" / "picture.png")


@pytest.mark.parametrize("name", screenshots.SHOTS)
def test_every_picture_is_there(name: str) -> None:
    path = screenshots.ROOT / "docs" / f"{name}.png"
    assert 0 < path.stat().st_size < screenshots.MOST_BYTES
    image = QImage(str(path))
    shot = screenshots.SHOTS[name]
    if name != "settings":
        assert image.width() == shot.size[0] * float(shot.scale)
    assert f"docs/{name}.png" in (screenshots.ROOT / "README.md").read_text(encoding="utf-8")
