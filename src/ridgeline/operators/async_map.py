"""Turn each tuple into another one by a function that waits: calls of services, databases and models."""

from __future__ import annotations

import contextlib
import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic

import pyarrow as pa
from pydantic import Field

from ridgeline.api import InputPort, OutputPort, SchemaType
from ridgeline.api.context import OperatorContext
from ridgeline.api.errors import RidgelineError
from ridgeline.api.support.duration import Duration, PositiveDuration, parse_duration
from ridgeline.api.support.results import other_arguments
from ridgeline.operators._shaped import GivenSchema, Made, T

Outcome = tuple[Any, BaseException | None]
"""A result, or the error of a tuple."""


class AsyncMap(GivenSchema, Generic[T, Made]):
    """Turn each tuple into one of `schema` by an `async def` function; so many calls wait at once.

    `function` takes a tuple. Up to `concurrency` calls of a batch run at once, in each partition, in a loop
    of asyncio that lives as long as the container. Results come in the order of the tuples. A tuple's results
    belong to its window, which ends when all calls have returned, and they have the tuple's time.

    A call that takes longer than `timeout` is cancelled and counts as failed, with `TimeoutError`. A failed
    call is made again up to `retries` times, after `back_off`, then twice that, and so on. If it fails for
    good, that is an error of the tuple, as of any operator: with `on_error="SKIP"` it becomes a dead letter.
    A window that runs again makes its calls again: a call that changes something must bear that.

    Partitions: round robin.

    Example:
        >>> import asyncio
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import AsyncMap
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> class Place(NamedTuple):
        ...     city: str
        >>> class Weather(NamedTuple):
        ...     city: str
        ...     celsius: float
        >>> async def forecast(place: Place) -> Weather:
        ...     await asyncio.sleep(0)  # ask a service
        ...     return Weather(place.city, 20.5)
        >>> app = Application("weather")
        >>> places = app.add_operator("places", ListInput(Place, [("Bern",), ("Oslo",)]))
        >>> weather = app.add_operator("weather", AsyncMap(forecast, schema=Weather, concurrency=8))
        >>> sink = app.add_operator("sink", CollectorSink(Weather))
        >>> app.add_stream("places", places.output, weather.data)
        >>> app.add_stream("weather", weather.output, sink.input)
        >>> run_local(app).collected("sink")
        [Weather(city='Bern', celsius=20.5), Weather(city='Oslo', celsius=20.5)]
    """

    data = InputPort[T](Any)
    output = OutputPort[Made](Any)

    function: Callable[[T], Awaitable[Made]]
    schema: SchemaType[Made] = Field(kw_only=True)
    concurrency: int = Field(16, ge=1, kw_only=True)
    timeout: PositiveDuration | None = Field(None, kw_only=True)
    retries: int = Field(0, ge=0, kw_only=True)
    back_off: Duration = Field(0.1, kw_only=True)

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse functions that do not wait."""
        faults = super().property_faults()
        plain = inspect.isfunction(self.function) and not inspect.iscoroutinefunction(self.function)
        if plain and getattr(self.function, "__name__", "") != "<lambda>":
            faults.append(("function", self.function, "must be an `async def`; `map` takes other functions"))
        elif rule := other_arguments(self.function):
            faults.append(("function", self.function, rule))
        return faults

    def setup(self, context: OperatorContext) -> None:
        """Make the loop, which outlives windows: a client that the function keeps belongs to it."""
        self.calls = Calls()

    def teardown(self) -> None:
        """Close the loop."""
        self.calls.close()

    @data.process_batch
    def apply(self, batch: pa.RecordBatch) -> None:
        """Emit the results for a batch. Raises the first error of a tuple."""
        rows = self.data.schema.decode(batch)
        outcomes = self.calls.of(rows, self._call, self.concurrency)
        for _, error in outcomes:
            if error is not None:
                raise error
        made_rows = [made for made, _ in outcomes]
        self.output.emit_batch(self.output.schema.encode(made_rows), rows=range(len(rows)))

    async def _call(self, row: T) -> Made:
        """Call the function for a tuple, again where it fails."""
        import asyncio

        wait = parse_duration(self.back_off)
        limit = None if self.timeout is None else parse_duration(self.timeout)
        for left in range(self.retries, -1, -1):
            try:
                async with asyncio.timeout(limit):
                    return await _awaitable(self.function(row))
            except (Exception, asyncio.CancelledError) as error:
                if not left and isinstance(error, asyncio.CancelledError):  # by a client library
                    raise RidgelineError("the function was cancelled (`CancelledError`)") from error
                if not left and limit is not None and isinstance(error, TimeoutError) and not error.args:
                    raise TimeoutError(f"the function took longer than `timeout`, {limit:g} s") from error
                if not left:
                    raise
                await asyncio.sleep(wait)
                wait *= 2
        raise AssertionError  # the last attempt returns or raises


def _awaitable(made: Any) -> Awaitable[Any]:
    """The result of a function. Raises TypeError if it cannot be awaited."""
    if not inspect.isawaitable(made):
        kind = type(made).__name__
        raise TypeError(
            f"the function returned a {kind}, which cannot be awaited; make it `async def`, or use `map`"
        )
    return made


class Calls:
    """The calls of an operator's function, in one loop.

    A batch with an error is delivered again row by row. So that no call is made twice, the outcomes of such a
    batch are kept until its rows came.
    """

    def __init__(self) -> None:
        import asyncio  # 36 ms, which who imports the library need not wait for

        # with a factory the runner leaves the loop of the thread as it is
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._kept: deque[tuple[Any, Outcome]] = deque()

    def close(self) -> None:
        """Close the loop."""
        self._runner.close()

    def __del__(self) -> None:
        # A container that failed is not torn down. Where another loop runs, this one cannot run to its end.
        with contextlib.suppress(RuntimeError):  # it is closed
            self._runner.get_loop().close()

    def of(self, rows: Sequence[Any], call: Callable[[Any], Awaitable[Any]], most: int) -> list[Outcome]:
        """The outcomes of the calls of rows."""
        if len(rows) == 1 and self._kept:
            row, outcome = self._kept.popleft()
            if row == rows[0]:
                return [outcome]
        self._kept.clear()
        outcomes = self._runner.run(_called(rows, call, most))
        if len(rows) > 1 and any(error is not None for _, error in outcomes):
            self._kept.extend(zip(rows, outcomes, strict=True))
        return outcomes


async def _called(rows: Sequence[Any], call: Callable[[Any], Awaitable[Any]], most: int) -> list[Outcome]:
    """Call for all rows, up to `most` at once."""
    import asyncio

    outcomes: list[Outcome] = [(None, None)] * len(rows)
    places = iter(range(len(rows)))

    async def work() -> None:
        for place in places:
            try:
                outcomes[place] = (await call(rows[place]), None)
            except Exception as error:  # noqa: BLE001  code of the function's author
                outcomes[place] = (None, error)

    await asyncio.gather(*(work() for _ in range(min(most, len(rows)))))
    return outcomes
