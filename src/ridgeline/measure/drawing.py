"""Pictures as SVG, without any library: lines and bars over windows, bars with names, a DAG."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from html import escape

from ridgeline.measure.wording.units import count, duration

COLOURS = ("#e8590c", "#1c7ed6", "#2f9e44", "#9c36b5", "#f08c00", "#0c8599", "#c2255c", "#868e96")
_WIDTH, _HEIGHT = 760, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 170, 30, 28
_STEPS = 4
_ROW = 26
_NAMES = 190


class Picture:
    """A picture that a notebook shows; `svg` is its text.

    Example:
        >>> Picture("<svg/>")._repr_html_()
        '<svg/>'
    """

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_html_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<picture of {len(self.svg):,} characters of SVG; a notebook shows it>"


def line_chart(title: str, windows: Sequence[int], series: Mapping[str, Sequence[float | None]]) -> str:
    """Milliseconds over windows, a line each; a gap where a value is missing."""
    top = max((value for line in series.values() for value in line if value is not None), default=0.0)
    parts = _frame(title, windows, top)
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        steps = "".join(_step(place, len(windows), values, top) for place in range(len(values)))
        parts.append(f'<path d="{steps}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts.append(_key(number, name, colour))
    return _svg(parts, _HEIGHT)


def stacked_bars(title: str, windows: Sequence[int], series: Mapping[str, Sequence[float]]) -> str:
    """Milliseconds over windows, as bars of parts on top of each other."""
    sums = [sum(values) for values in zip(*series.values(), strict=True)] if series else []
    top = max(sums, default=0.0)
    parts = _frame(title, windows, top)
    wide = (_WIDTH - _LEFT - _RIGHT) / max(1, len(windows))
    below = [0.0] * len(windows)
    for number, (name, values) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        for place, value in enumerate(values):
            high = _y(below[place], top) - _y(below[place] + value, top)
            below[place] += value
            if high > 0:
                x = _LEFT + place * wide
                parts.append(
                    f'<rect x="{x:.1f}" y="{_y(below[place], top):.1f}" width="{max(0.5, wide - 0.5):.1f}" '
                    f'height="{high:.1f}" fill="{colour}"/>'
                )
        parts.append(_key(number, name, colour))
    return _svg(parts, _HEIGHT)


def named_bars(title: str, rows: Mapping[str, float]) -> str:
    """Milliseconds by name, a bar each, with their texts."""
    top = max(rows.values(), default=0.0)
    parts = [f'<text x="8" y="18" font-weight="600">{escape(title)}</text>']
    for number, (name, value) in enumerate(rows.items()):
        y = _TOP + number * _ROW
        wide = (_WIDTH - _NAMES - 110) * max(0.0, value) / top if top > 0 else 0.0
        parts.append(f'<text x="{_NAMES - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect x="{_NAMES}" y="{y}" width="{wide:.1f}" height="18" fill="{COLOURS[1]}"/>')
        parts.append(f'<text x="{_NAMES + wide + 6:.1f}" y="{y + 14}">{duration(value / 1000)}</text>')
    return _svg(parts, _TOP + max(1, len(rows)) * _ROW)


def _svg(parts: Sequence[str], height: int) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'style="max-width:100%" font-family="system-ui, sans-serif" font-size="12" fill="currentColor" '
        f'role="img">{"".join(parts)}</svg>'
    )


def _frame(title: str, windows: Sequence[int], top: float) -> list[str]:
    """Title, lines of the scale with their texts, first and last window."""
    parts = [f'<text x="8" y="18" font-weight="600">{escape(title)}</text>']
    for step in range(_STEPS + 1):
        value = top * step / _STEPS
        y = _y(value, top)
        parts.append(
            f'<path d="M{_LEFT} {y:.1f} H{_WIDTH - _RIGHT}" stroke="currentColor" stroke-opacity="0.15"/>'
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" opacity="0.75">'
            f"{duration(value / 1000)}</text>"
        )
    if windows:
        parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 8}" opacity="0.75">window {count(windows[0])}</text>')
        parts.append(
            f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" text-anchor="end" opacity="0.75">'
            f"{count(windows[-1])}</text>"
        )
    return parts


def _key(number: int, name: str, colour: str) -> str:
    y = _TOP + number * 18
    x = _WIDTH - _RIGHT + 14
    return (
        f'<rect x="{x}" y="{y}" width="10" height="10" fill="{colour}"/>'
        f'<text x="{x + 16}" y="{y + 9}">{escape(name)}</text>'
    )


def _y(value: float, top: float) -> float:
    high = _HEIGHT - _TOP - _BOTTOM
    share = value / top if top > 0 and math.isfinite(top) else 0.0
    return _TOP + high * (1 - min(1.0, max(0.0, share)))


def _step(place: int, windows: int, values: Sequence[float | None], top: float) -> str:
    """One point of a line; after a gap a new one begins."""
    value = values[place]
    if value is None:
        return ""
    x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * place / max(1, windows - 1)
    begins = place == 0 or values[place - 1] is None
    return f"{'M' if begins else 'L'}{x:.1f} {_y(value, top):.1f} "


ACCENT = "#e8590c"
_BOX_WIDTH, _BOX_HEIGHT = 150, 46
_GAP_X, _GAP_Y = 48, 18
_MARGIN = 8
_LETTERS = 20
_ROUNDS = 4


def dag_svg(
    nodes: Mapping[str, str],
    edges: Collection[tuple[str, str]],
    path: Collection[str] = (),
) -> str:
    """The picture of a DAG.

    Args:
        nodes: A second line, such as a latency, by the name of each operator.
        edges: Pairs of names: who writes, who reads. Loops are drawn too.
        path: Names on the critical path.

    Returns:
        An `svg` element whose text has the colour of the page around it.
    """
    layers = _layers(list(nodes), edges)
    places: dict[str, tuple[int, int]] = {}
    tallest = max((len(layer) for layer in layers), default=0)
    for column, layer in enumerate(layers):
        top = (tallest - len(layer)) * (_BOX_HEIGHT + _GAP_Y) // 2
        for row, name in enumerate(layer):
            places[name] = (
                _MARGIN + column * (_BOX_WIDTH + _GAP_X),
                _MARGIN + top + row * (_BOX_HEIGHT + _GAP_Y),
            )
    width = 2 * _MARGIN + len(layers) * (_BOX_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + tallest * (_BOX_HEIGHT + _GAP_Y) - _GAP_Y
    parts = [_edge(places[one], places[other], on=one in path and other in path) for one, other in edges]
    parts += [_node(places[name], name, second, on=name in path) for name, second in nodes.items()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {max(width, 1)} {max(height, 1)}" '
        f'width="{max(width, 1)}" style="max-width:100%" font-family="system-ui, sans-serif" font-size="12" '
        f'fill="currentColor" role="img">{"".join(parts)}</svg>'
    )


def _layers(names: Sequence[str], edges: Collection[tuple[str, str]]) -> list[list[str]]:
    """Names by column: each after all that it reads, as far as there is no loop; rows with few crossings."""
    depth = dict.fromkeys(names, 0)
    for _ in names:
        moved = False
        for one, other in edges:
            if one != other and depth[other] <= depth[one] < len(names) - 1:
                depth[other], moved = depth[one] + 1, True
        if not moved:
            break
    used = sorted(set(depth.values()))
    layers = [[name for name in names if depth[name] == number] for number in used]
    for _ in range(_ROUNDS):
        rows = {name: row for layer in layers for row, name in enumerate(layer)}
        for layer in layers:
            layer.sort(key=lambda name: _middle(name, edges, rows))
    return layers


def _middle(name: str, edges: Collection[tuple[str, str]], rows: Mapping[str, int]) -> float:
    """The mean row of those that it reads; its own without any."""
    read = [rows[one] for one, other in edges if other == name and one != name]
    return sum(read) / len(read) if read else float(rows[name])


def _node(place: tuple[int, int], name: str, second: str, *, on: bool) -> str:
    x, y = place
    stroke = f'stroke="{ACCENT}" stroke-width="2"' if on else 'stroke="currentColor" stroke-opacity="0.4"'
    shown = name if len(name) <= _LETTERS else f"{name[: _LETTERS - 1]}…"
    return (
        f'<g><title>{escape(name)}</title><rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" '
        f'rx="6" fill="currentColor" fill-opacity="0.06" {stroke}/>'
        f'<text x="{x + 10}" y="{y + 19}" font-weight="600">{escape(shown)}</text>'
        f'<text x="{x + 10}" y="{y + 36}" opacity="0.75">{escape(second)}</text></g>'
    )


def _edge(start: tuple[int, int], end: tuple[int, int], *, on: bool) -> str:
    x1, y1 = start[0] + _BOX_WIDTH, start[1] + _BOX_HEIGHT // 2
    x2, y2 = end[0], end[1] + _BOX_HEIGHT // 2
    bend = max(_GAP_X // 2, abs(x2 - x1) // 2)
    stroke = f'stroke="{ACCENT}" stroke-width="2.5"' if on else 'stroke="currentColor" stroke-opacity="0.45"'
    return f'<path d="M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}" fill="none" {stroke}/>'
