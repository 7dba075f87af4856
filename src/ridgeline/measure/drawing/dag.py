"""A DAG of operators as SVG: left to right, by the longest way from an input; the critical path in colour."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape

ACCENT = "#e8590c"
_WIDTH, _HEIGHT = 150, 46
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
        top = (tallest - len(layer)) * (_HEIGHT + _GAP_Y) // 2
        for row, name in enumerate(layer):
            places[name] = (
                _MARGIN + column * (_WIDTH + _GAP_X),
                _MARGIN + top + row * (_HEIGHT + _GAP_Y),
            )
    width = 2 * _MARGIN + len(layers) * (_WIDTH + _GAP_X) - _GAP_X
    height = 2 * _MARGIN + tallest * (_HEIGHT + _GAP_Y) - _GAP_Y
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
        f'<g><title>{escape(name)}</title><rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" '
        f'fill="currentColor" fill-opacity="0.06" {stroke}/>'
        f'<text x="{x + 10}" y="{y + 19}" font-weight="600">{escape(shown)}</text>'
        f'<text x="{x + 10}" y="{y + 36}" opacity="0.75">{escape(second)}</text></g>'
    )


def _edge(start: tuple[int, int], end: tuple[int, int], *, on: bool) -> str:
    x1, y1 = start[0] + _WIDTH, start[1] + _HEIGHT // 2
    x2, y2 = end[0], end[1] + _HEIGHT // 2
    bend = max(_GAP_X // 2, abs(x2 - x1) // 2)
    stroke = f'stroke="{ACCENT}" stroke-width="2.5"' if on else 'stroke="currentColor" stroke-opacity="0.45"'
    return f'<path d="M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}" fill="none" {stroke}/>'
