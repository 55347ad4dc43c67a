"""Table and plot of `bench.scaling` for the documentation: `docs/reference/scaling.md`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from bench.environment import ROOT

PAGE = ROOT / "docs" / "reference" / "scaling.md"
PLOT = PAGE.with_suffix(".svg")
#: what is measured, and its unit
UNITS = {"intake": "1/s", "claim": "1/s", "list": "pages/s", "wait": "ms, p99", "send": "1/s"}
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
_TABLE = re.compile(r"(?<=<!-- table -->\n).*(?=<!-- /table -->)", re.DOTALL)
_COLOURS = ("#1b6ca8", "#c1440e", "#3a7d44", "#7b3fa0", "#8a6d00")

Figures = Mapping[str, Sequence[float]]

WIDTH, HEIGHT = 360, 240
LEFT, TOP, RIGHT, BOTTOM = 44, 34, 60, 34
#: the highest share that is drawn
MOST = 1.5


def write(rows: Sequence[int], figures: Figures) -> None:
    """Put the figures into the page, and draw them."""
    page = PAGE.read_text()
    PAGE.write_text(_TABLE.sub(lambda _: table(rows, figures), page))
    PLOT.write_text(plot(rows, figures))


def table(rows: Sequence[int], figures: Figures) -> str:
    """Return the figures as a Markdown table."""
    head = "| | unit | " + " | ".join(f"{count:,} rows" for count in rows) + " |"
    lines = [head, "|---" * (len(rows) + 2) + "|"]
    for key, values in figures.items():
        name, kind = key.split()
        digits = 1 if name == "wait" else 0
        cells = [f"{value:,.{digits}f}" for value in values]
        cells += ["not measured"] * (len(rows) - len(values))
        lines.append(f"| {name}, {NAMES[kind]} | {UNITS[name]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def shares(name: str, values: Sequence[float]) -> list[float]:
    """Return what is left of the first figure at each size; of a duration, its inverse."""
    first = values[0]
    return [first / value if name == "wait" else value / first for value in values]


def plot(rows: Sequence[int], figures: Figures) -> str:
    """Return a drawing of all figures as shares of the first, one panel for each database."""
    kinds = [kind for kind in NAMES if any(key.endswith(kind) for key in figures)]
    panels = [_panel(kind, rows, figures, at * WIDTH) for at, kind in enumerate(kinds)]
    size = f'width="{WIDTH * len(kinds)}" height="{HEIGHT}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="11">\n'
        f'<rect {size} fill="white"/>\n' + "".join(panels) + "</svg>\n"
    )


def _panel(kind: str, rows: Sequence[int], figures: Figures, left: int) -> str:
    span = math.log10(rows[-1] / rows[0]) or 1.0

    def x(count: int) -> float:
        return LEFT + math.log10(count / rows[0]) / span * (WIDTH - LEFT - RIGHT)

    def y(share: float) -> float:
        return TOP + (1 - min(share, MOST) / MOST) * (HEIGHT - TOP - BOTTOM)

    parts = [_text(LEFT, 18, f"{NAMES[kind]}: share of the figure at {rows[0]:,} rows")]
    for share in (0.0, 0.5, 1.0, 1.5):
        at = y(share)
        parts.append(
            f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>\n'
            + _text(LEFT - 26, at + 4, f"{share:.1f}")
        )
    parts += [_text(x(count) - 20, HEIGHT - 12, f"{count:,}") for count in rows]
    lines = [key.split()[0] for key in figures if key.endswith(kind)]
    for name, colour in zip(lines, _COLOURS, strict=False):
        values = shares(name, figures[f"{name} {kind}"])
        points = " ".join(f"{x(c):.1f},{y(s):.1f}" for c, s in zip(rows, values, strict=False))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>\n'
        )
    ends = sorted((y(shares(name, figures[f"{name} {kind}"])[-1]), name) for name in lines)
    at = 0.0
    for end, name in ends:
        at = max(at + 12, end + 4)  # labels do not cover each other
        parts.append(_text(WIDTH - RIGHT + 6, at, name, _COLOURS[lines.index(name)]))
    return f'<g transform="translate({left},0)">\n{"".join(parts)}</g>\n'


def _text(x: float, y: float, text: str, colour: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}">{text}</text>\n'
