"""Charts are well-formed and put points where they belong."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from medusa_core.bench.plots import Series, line_chart

SVG = "{http://www.w3.org/2000/svg}"


def circles(chart: str) -> list[tuple[float, float]]:
    return [(float(node.attrib["cx"]), float(node.attrib["cy"])) for node in ET.fromstring(chart).iter(f"{SVG}circle")]


def test_points_follow_their_values() -> None:
    chart = line_chart("A & <b>", "x", "y", [Series("one", ((1, 0.0), (2, 1.0), (4, 2.0)))], doubling=True)
    places = circles(chart)
    assert places[1][0] - places[0][0] == pytest.approx(places[2][0] - places[1][0], abs=0.2), "doublings are equal"
    assert places[0][1] > places[1][1] > places[2][1], "more is higher"
    plain = circles(line_chart("", "x", "y", [Series("one", ((1, 0.0), (2, 1.0), (4, 2.0)))]))
    assert plain[2][0] - plain[1][0] == pytest.approx(2 * (plain[1][0] - plain[0][0]), abs=0.2)
    assert any(node.text == "A & <b>" for node in ET.fromstring(chart).iter(f"{SVG}text"))


@pytest.mark.parametrize("points", [(), ((3, 0.0),), ((0, 5.0), (0, 7.0))])
def test_little_to_draw_is_drawn(points: tuple[tuple[float, float], ...]) -> None:
    assert len(circles(line_chart("t", "x", "y", [Series("one", points)], doubling=True))) == len(points)
