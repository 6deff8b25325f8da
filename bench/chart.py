"""A chart as SVG: for each case a line, on it a dot for each system, with the spread of its rounds.

The axis is logarithmic, since the systems are far apart: equal distances are equal ratios, and bars would mislead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from html import escape
from typing import NamedTuple

from bench.report import shown
from bench.results import Spread

COLOURS = ("#c2410c", "#94a3b8", "#2563eb", "#059669", "#7c3aed", "#b45309", "#be185d")
LEFT, WIDTH, ROW, TOP = 250, 640, 58, 84
_Place = Callable[[float], float]  # where a value lies on the axis


class Mark(NamedTuple):
    system: str
    value: Spread
    label: str  # the figure, and its ratio


class Line(NamedTuple):
    title: str
    marks: list[Mark]


def chart(title: str, unit: str, lines: list[Line]) -> str:
    systems = list(dict.fromkeys(mark.system for line in lines for mark in line.marks))
    colours = {system: COLOURS[i % len(COLOURS)] for i, system in enumerate(systems)}
    values = [mark.value for line in lines for mark in line.marks]
    low = math.floor(math.log10(min((value.least for value in values if value.least > 0), default=1)))
    high = max(low + 1, math.ceil(math.log10(max((value.most for value in values), default=1))))

    def x(value: float) -> float:
        return LEFT + WIDTH * (math.log10(max(value, 10**low)) - low) / (high - low)

    height = TOP + ROW * len(lines) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 60} {height}" '
        f'font-family="system-ui, sans-serif" font-size="12" role="img" aria-label="{escape(title)}">',
        f'<rect width="{LEFT + WIDTH + 60}" height="{height}" fill="#ffffff"/>',
        _text(16, 26, title, size=16, weight="bold"),
        _text(
            16,
            44,
            f"{unit}; logarithmic: each step to the right is ten times as much. Less is better.",
            "#475569",
        ),
    ]
    parts += _legend(colours)
    for power in range(low, high + 1):
        at = x(10.0**power)
        parts.append(f'<path d="M{at:.1f} {TOP} V{height - 30}" stroke="#e2e8f0"/>')
        parts.append(_text(at, height - 14, f"{10.0**power:,g}", "#475569", anchor="middle"))
    for i, line in enumerate(lines):
        y = TOP + ROW * i + 34
        parts.append(_text(16, y + 4, line.title))
        parts += [part for mark in line.marks for part in _dot(mark, x, y, colours[mark.system])]
        parts += _labels(line, x, y, colours)
    return "\n".join([*parts, "</svg>", ""])


def _legend(colours: dict[str, str]) -> list[str]:
    parts, at = [], 16.0
    for system, colour in colours.items():
        parts.append(f'<circle cx="{at + 5:.0f}" cy="62" r="5" fill="{colour}"/>')
        parts.append(_text(at + 14, 66, system))
        at += 34 + 6.6 * len(system)
    return parts


def _dot(mark: Mark, x: _Place, y: float, colour: str) -> list[str]:
    least, median, most = x(mark.value.least), x(mark.value.median), x(mark.value.most)
    return [
        f'<path d="M{least:.1f} {y} H{most:.1f}" stroke="{colour}" stroke-width="3" opacity="0.5"/>',
        f'<circle cx="{median:.1f}" cy="{y}" r="5" fill="{colour}"/>',
    ]


def _labels(line: Line, x: _Place, y: float, colours: dict[str, str]) -> list[str]:
    """Above and below the line in turn, so that neighbours do not cover each other."""
    parts = []
    for i, mark in enumerate(sorted(line.marks, key=lambda mark: mark.value.median)):
        at = y - 10 if i % 2 == 0 else y + 20
        parts.append(
            _text(x(mark.value.median), at, mark.label, colours[mark.system], size=11, anchor="middle")
        )
    return parts


def _text(
    x: float, y: float, text: str, colour: str = "#0f172a", size: int = 12, weight: str = "normal",
    anchor: str = "start",
) -> str:  # fmt: skip
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


def label(value: Spread, ratio: Spread | None) -> str:
    return shown(value.median) + ("" if ratio is None else f" ({shown(ratio.median)}x)")
