"""Checks of whole applications: results must not depend on faults, partitions or the order of tuples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypedDict, Unpack

from rich.console import Console

from ridgeline.api.application import Application
from ridgeline.api.errors import RidgelineError
from ridgeline.testing.captured import Captured
from ridgeline.testing.comparing import Comparison, compare
from ridgeline.testing.faults import KINDS, Fault, Faults, Kind
from ridgeline.testing.list_input import END_WINDOW
from ridgeline.testing.run_local import run_local


class RunOptions(TypedDict, total=False):
    """Options of all runs of a check, as of `run_local`.

    Example:
        >>> short: RunOptions = {"windows": 3, "properties": {"source.limit": "10"}}
    """

    inputs: Mapping[str, Iterable[object]] | None
    windows: int | None
    properties: Mapping[str, str] | None
    attributes: Mapping[str, str] | None


_MOST_RUNS = 40
"""Runs that search for fewer faults with the same effect."""


def compare_runs(  # noqa: PLR0913  the surroundings of a run
    a: Application,
    b: Application | None = None,
    *,
    b_properties: Mapping[str, str] | None = None,
    b_attributes: Mapping[str, str] | None = None,
    same_input: bool = False,
    only: Collection[str] = (),
    tolerance: float = 0.0,
    ordered: bool | None = None,
    by_window: bool = True,
    **run: Unpack[RunOptions],
) -> Comparison:
    """Run two applications in process, and compare what their streams carry; B is `a` again by default.

    `inputs`, `windows`, `properties`, `attributes`: of both runs, as of `run_local`. `b_properties`,
    `b_attributes`: of B only, above those. `same_input`: B gets what A's input operators have emitted, window
    by window. `only`: operators or ports to look at. `tolerance`: floats are equal if they are apart by at
    most so much, or by this part of the larger one. `ordered`: whether order counts; default: where both
    runs promise one. `by_window`: False compares all windows as one. Output operators publish nothing.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import Map
        >>> from ridgeline.testing import CollectorSink, ListInput, compare_runs
        >>> class Price(NamedTuple):
        ...     symbol: str
        ...     price: float
        >>> def application(factor: float) -> Application:
        ...     app = Application("prices")
        ...     prices = app.add_operator("prices", ListInput(Price, [("IBM", 12.0), ("SAP", 0.0)]))
        ...     scaled = app.add_operator(
        ...         "scaled", Map(lambda price: Price(price.symbol, price.price * factor), schema=Price)
        ...     )
        ...     sink = app.add_operator("sink", CollectorSink(Price))
        ...     app.add_stream("prices", prices.output, scaled.data)
        ...     app.add_stream("scaled", scaled.output, sink.input)
        ...     return app
        >>> print(compare_runs(application(2.0), application(2.5)))
        different: 1 difference in 2 streams, 1 window, 4 tuples
          window 0, `scaled.output`: 1 tuple differs
            symbol='IBM': price 24.0 in A, 30.0 in B
            what `scaled` reads is the same: look there
    """
    run = _repeatable(run)
    first = _captured(a, run)
    other: RunOptions = {
        **run,
        "properties": {**(run.get("properties") or {}), **(b_properties or {})},
        "attributes": {**(run.get("attributes") or {}), **(b_attributes or {})},
    }
    second = _captured(b or a, {**other, "inputs": replayed(first)} if same_input else other)
    return compare(first, second, only=only, tolerance=tolerance, ordered=ordered, by_window=by_window)


def assert_recovers(
    app: Application,
    seeds: Iterable[int] = range(10),
    *,
    rate: float = 0.1,
    kinds: Collection[Kind] = KINDS,
    in_flight: bool = True,
    only: Collection[str] = (),
    tolerance: float = 0.0,
    **run: Unpack[RunOptions],
) -> None:
    """Check that results are the same under faults as without: one run for each seed.

    `rate`, `kinds`: as of `Faults`. Other arguments: as of `compare_runs`. Several windows are in flight: an
    operator that reads the clock sees that, so give `in_flight=False` and the other `kinds` for one.
    Raises AssertionError: where results differ first, the fewest faults that make them differ, and how to
    see it again. It is also raised if two runs without faults differ.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import SumKeyVal
        >>> from ridgeline.testing import CollectorSink, ListInput, assert_recovers
        >>> class Sold(NamedTuple):
        ...     shop: str
        ...     count: int
        >>> app = Application("sold")
        >>> sold = app.add_operator("sold", ListInput(Sold, [("a", 1), ("b", 2), ("a", 3)]))
        >>> sums = app.add_operator("sums", SumKeyVal(), partitions=2)
        >>> sink = app.add_operator("sink", CollectorSink(Sold))
        >>> app.add_stream("sold", sold.output, sums.data)
        >>> app.add_stream("sums", sums.sum, sink.input)
        >>> assert_recovers(app, seeds=range(3), rate=0.5)
    """
    run = _repeatable(run)
    clean = _captured(app, run)

    def difference(faults: Faults | None, seed: int) -> str:
        """The difference from the run without faults, as text; "" for none."""
        interleave = seed if in_flight else None
        try:
            struck = _captured(app, run, faults=faults, interleave=interleave)
            found = compare(clean, struck, only=only, tolerance=tolerance)
        except RidgelineError as error:
            if faults is None:
                raise
            return f"the run failed: {error}"
        return "" if found.equal else "\n".join(found.lines(1))

    for seed in seeds:
        if found := difference(None, seed):
            raise AssertionError(
                f"`{app.name}` gives other results when it runs again, without any fault:\n{found}"
            )
        faults = Faults(seed, rate=rate, kinds=kinds, quiet=True)
        if found := difference(faults, seed):
            fewest, found = _fewest(faults.struck, found, lambda few, seed=seed: difference(few, seed))
            after = "\n".join(f"  {fault.told}" for fault in fewest)
            only_these = Faults(only=map(str, fewest))
            again = f"run_local(app, interleave={seed if in_flight else None}, faults={only_these!r})"
            raise AssertionError(
                f"`{app.name}` gives other results under faults:\n{found}\nafter:\n{after}\nagain: {again}"
            )


def assert_independent_of_partitions(
    app: Application,
    operator: str,
    counts: Sequence[int] = (1, 2, 3, 5),
    *,
    only: Collection[str] = (),
    tolerance: float = 0.0,
    **run: Unpack[RunOptions],
) -> None:
    """Check that results do not depend on the number of an operator's partitions.

    Arguments: as of `compare_runs`. Raises AssertionError, which says where they differ first.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import SumKeyVal
        >>> from ridgeline.testing import CollectorSink, ListInput, assert_independent_of_partitions
        >>> class Sold(NamedTuple):
        ...     shop: str
        ...     count: int
        >>> app = Application("sold")
        >>> sold = app.add_operator("sold", ListInput(Sold, [("a", 1), ("b", 2), ("a", 3)]))
        >>> sums = app.add_operator("sums", SumKeyVal())
        >>> sink = app.add_operator("sink", CollectorSink(Sold))
        >>> app.add_stream("sold", sold.output, sums.data)
        >>> app.add_stream("sums", sums.sum, sink.input)
        >>> assert_independent_of_partitions(app, "sums")
    """
    run = _repeatable(run)
    given = run.get("attributes") or {}
    found = [
        _captured(app, {**run, "attributes": {**given, f"{operator}.partitions": str(count)}})
        for count in counts
    ]
    for count, other in zip(counts[1:], found[1:], strict=True):
        what = f"`{operator}` gives other results with {count} partitions (B) than with {counts[0]} (A)"
        _check(compare(found[0], other, only=only, tolerance=tolerance, ordered=False), what)


def assert_independent_of_order(
    app: Application,
    seeds: Iterable[int] = range(5),
    *,
    only: Collection[str] = (),
    tolerance: float = 0.0,
    **run: Unpack[RunOptions],
) -> None:
    """Check that results do not depend on the order of the input's tuples within each window.

    Tuples of the input operators are shuffled, by each seed. Arguments: as of `compare_runs`. Raises
    AssertionError, which says where results differ first.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import SumKeyVal
        >>> from ridgeline.testing import CollectorSink, ListInput, assert_independent_of_order
        >>> class Sold(NamedTuple):
        ...     shop: str
        ...     count: int
        >>> app = Application("sold")
        >>> sold = app.add_operator("sold", ListInput(Sold, [("a", 1), ("b", 2), ("a", 3)]))
        >>> sums = app.add_operator("sums", SumKeyVal())
        >>> sink = app.add_operator("sink", CollectorSink(Sold))
        >>> app.add_stream("sold", sold.output, sums.data)
        >>> app.add_stream("sums", sums.sum, sink.input)
        >>> assert_independent_of_order(app)
    """
    run = _repeatable(run)
    first = _captured(app, run)
    chosen = set(only) or {port.operator for port in first.ports if port.operator not in first.inputs}
    for seed in seeds:
        shuffled = replayed(first, Random(seed))  # noqa: S311  not a secret
        other = _captured(app, {**run, "inputs": shuffled})
        what = f"`{app.name}` gives other results when its input comes in another order (B, seed {seed})"
        _check(compare(first, other, only=chosen, tolerance=tolerance, ordered=False), what)


def _check(result: Comparison, what: str) -> None:
    """Raise AssertionError for a difference; `what` is wrong then."""
    if not result.equal:
        raise AssertionError("\n".join([f"{what}:", *result.lines(1)]))


def replayed(captured: Captured, random: Random | None = None) -> dict[str, list[object]]:
    """The tuples of a run's input operators, as lists for `run_local(inputs=)`.

    `random` shuffles each window.
    """
    found: dict[str, list[object]] = {}
    for port in captured.ports:
        if port.operator in captured.inputs:
            found[port.operator] = list(_by_window(captured, port, random))
    return found


def _by_window(captured: Captured, port: Any, random: Random | None) -> Iterator[object]:
    for window in range(max(captured.windows, default=-1) + 1):
        if window:
            yield END_WINDOW
        rows = captured.rows(port, window)
        if random is not None:
            random.shuffle(rows)
        yield from rows


def _repeatable(run: RunOptions) -> RunOptions:
    """The options, with inputs as lists, since several runs read them."""
    inputs = run.get("inputs")
    return {**run, "inputs": {name: list(items) for name, items in inputs.items()}} if inputs else run


def _captured(
    app: Application, run: RunOptions, *, faults: Faults | None = None, interleave: int | None = None
) -> Captured:
    """Run an application quietly; what its streams carried."""
    quiet = Console(quiet=True)
    return run_local(app, faults=faults, interleave=interleave, capture=True, console=quiet, **run).captured


def _fewest(struck: Sequence[Fault], found: str, differs: Any) -> tuple[list[Fault], str]:
    """As few of these faults as still make results differ, and what differs then."""
    fewest = list(struck)
    for fault in struck[:_MOST_RUNS]:
        few = [one for one in fewest if one is not fault]
        if other := differs(Faults(only=map(str, few), quiet=True)):
            fewest, found = few, other
    return fewest, found
