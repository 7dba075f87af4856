"""Compare two runs, stream by stream and window by window."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from ridgeline.api.errors import RidgelineError, did_you_mean
from ridgeline.measure.wording.units import plural
from ridgeline.testing.captured import Captured, Port
from ridgeline.testing.matching import Row, changes, match

_MOST_SHOWN = 5
"""Tuples that a difference keeps of one port in one window."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference at one output port in one window.

    `window`: None if windows are compared as one. `differ`, `only_a`, `only_b`: how many tuples have another
    value, or are on one side only. `moved`: the tuples are the same in another order. `shown`: some of them,
    as texts. `cause`: everything that the operator reads is the same on both sides up to this window.

    Example:
        >>> from ridgeline.testing import Difference
        >>> Difference(3, "sum", "total", 0, 1, 0, False, (), True).text
        'window 3, `sum.total`: 1 tuple only in A'
    """

    window: int | None
    operator: str
    port: str
    differ: int
    only_a: int
    only_b: int
    moved: bool
    shown: tuple[str, ...]
    cause: bool

    @property
    def text(self) -> str:
        """In one line: where, and how many tuples."""
        where = f"`{self.operator}.{self.port}`"
        if self.window is not None:
            where = f"window {self.window}, {where}"
        if self.moved:
            return f"{where}: the same tuples in another order, which this stream promises to keep"
        parts = [
            f"{plural(count, 'tuple')} {what}"
            for count, what in (
                (self.differ, "differ" if self.differ > 1 else "differs"),
                (self.only_a, "only in A"),
                (self.only_b, "only in B"),
            )
            if count
        ]
        return f"{where}: {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing two runs.

    `differences`: by window, then in topological order. `only_a`, `only_b`: ports that one side has. `ports`:
    those that were compared. `windows`, `tuples`: how many.

    Example:
        >>> from ridgeline.testing.comparing import Comparison
        >>> bool(Comparison()), str(Comparison())
        (True, 'equal: 0 streams, 0 windows, 0 tuples')
    """

    differences: Sequence[Difference] = ()
    only_a: Sequence[Port] = ()
    only_b: Sequence[Port] = ()
    ports: Sequence[Port] = ()
    windows: int = 0
    tuples: int = 0
    unequal_inputs: Sequence[str] = field(default=())

    @property
    def equal(self) -> bool:
        """True if nothing differs."""
        return not (self.differences or self.only_a or self.only_b)

    def __bool__(self) -> bool:
        return self.equal

    def lines(self, limit: int = 10) -> list[str]:
        """A text for people: what differs, the first `limit` differences in full."""
        sizes = (len(self.ports), "stream"), (self.windows, "window"), (self.tuples, "tuple")
        count = ", ".join(plural(*size) for size in sizes)
        if self.equal:
            return [f"equal: {count}"]
        found = [f"different: {plural(len(self.differences), 'difference')} in {count}"]
        found += [f"  only A has `{port}`" for port in self.only_a]
        found += [f"  only B has `{port}`" for port in self.only_b]
        seen = set[str]()
        for one in self.differences[:limit]:
            found.append(f"  {one.text}")
            found += [f"    {text}" for text in one.shown]
            if one.cause and one.operator not in seen:
                found.append(f"    what `{one.operator}` reads is the same: look there")
            seen.add(one.operator)
        if len(self.differences) > limit:
            found.append(f"  and {len(self.differences) - limit} more")
        found += [
            f"  input `{name}` itself differs; `compare_runs(same_input=True)` gives B what A's emitted"
            for name in self.unequal_inputs
        ]
        return found

    def __str__(self) -> str:
        return "\n".join(self.lines())


def compare(
    a: Captured,
    b: Captured,
    *,
    only: Collection[str] = (),
    tolerance: float = 0.0,
    ordered: bool | None = None,
    by_window: bool = True,
) -> Comparison:
    """Compare what two runs captured.

    `only`: operators or ports (`sum.total`) to look at; default: all. `ordered`: whether order counts; None:
    where both sides promise one. `by_window`: False takes all windows as one. Raises RidgelineError for names
    in `only` that neither side has.
    """
    chosen = _chosen(a, b, only)
    common = [port for port in a.ports if port in b.ports and port in chosen]
    spans: list[tuple[int | None, list[int]]] = [(None, sorted({*a.windows, *b.windows}))]
    if by_window:
        spans = [(window, [window]) for window in spans[0][1]]
    differences: list[Difference] = []
    unequal: set[Port] = set()
    tuples = 0
    for window, ids in spans:
        for port in common:
            if _same_bytes(a, b, port, ids):
                tuples += sum(a.count(port, id_) for id_ in ids)
                continue
            rows_a, rows_b = _rows(a, port, ids), _rows(b, port, ids)
            tuples += len(rows_a)
            in_order = port in a.ordered and port in b.ordered if ordered is None else ordered
            left, right, moved = match(rows_a, rows_b, tolerance, ordered=in_order)
            if left or right or moved:
                cause = _reads(a, port.operator) == _reads(b, port.operator) and not unequal.intersection(
                    _reads(a, port.operator)
                )
                unequal.add(port)
                differences.append(_difference(window, port, left, right, moved, cause=cause))
    return Comparison(
        differences,
        [port for port in a.ports if port not in b.ports and port in chosen],
        [port for port in b.ports if port not in a.ports and port in chosen],
        common,
        len(spans) if by_window else len(spans[0][1]),
        tuples,
        sorted({port.operator for port in unequal if port.operator in a.inputs}),
    )


def _chosen(a: Captured, b: Captured, only: Collection[str]) -> set[Port]:
    """The ports that `only` names. Raises RidgelineError."""
    ports = [*a.ports, *b.ports]
    if not only:
        return set(ports)
    known = {name for port in ports for name in (port.operator, str(port))}
    for name in only:
        if name not in known:
            raise RidgelineError(
                f"no stream begins at `{name}` on either side; {did_you_mean(name, sorted(known))}"
            )
    return {port for port in ports if port.operator in only or str(port) in only}


def _reads(side: Captured, operator: str) -> set[Port]:
    return set(side.upstream.get(operator, ()))


def _same_bytes(a: Captured, b: Captured, port: Port, windows: Iterable[int]) -> bool:
    """True if both sides have the same batches: quicker than to look at each tuple."""
    return all(a.of_window(port, window) == b.of_window(port, window) for window in windows)


def _rows(side: Captured, port: Port, windows: Iterable[int]) -> list[Row]:
    return [row for window in windows for row in side.compared(port, window)]


def _difference(
    window: int | None,
    port: Port,
    left: Sequence[Row],
    right: Sequence[Row],
    moved: tuple[Row, Row] | None,
    *,
    cause: bool,
) -> Difference:
    """The difference of a port in a window: `left` and `right` have no equal on the other side."""
    pairs = list(changes(left, right))
    both = [(one, other) for one, other in pairs if one is not None and other is not None]
    only_a = [one for one, other in pairs if one is not None and other is None]
    only_b = [other for one, other in pairs if one is None and other is not None]
    shown = [one.beside(other, "in A", "in B") for one, other in both]
    shown += [f"only in A: {row}" for row in only_a[:_MOST_SHOWN]]
    shown += [f"only in B: {row}" for row in only_b[:_MOST_SHOWN]]
    if moved is not None:
        shown = [f"first A has {moved[0]}", f"where B has {moved[1]}"]
    return Difference(
        window,
        *port,
        len(both),
        len(only_a),
        len(only_b),
        moved is not None,
        tuple(shown[:_MOST_SHOWN]),
        cause,
    )
