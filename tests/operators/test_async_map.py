"""Functions that wait: many at once, each result once, in the window and at the time of its tuple."""

import asyncio
import contextlib
import functools
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from ridgeline import Application, OperatorError
from ridgeline.operators import Windowed, aggregate, tumbling
from ridgeline.operators.async_map import Calls
from ridgeline.testing import CollectorSink, ListInput, run_local


class Number(NamedTuple):
    value: int


class Timed(NamedTuple):
    value: int
    time: datetime


class Square(NamedTuple):
    value: int
    square: int


NUMBERS = [Number(n) for n in range(40)]


def application(function: Any, items: Any = NUMBERS, **options: Any) -> Application:
    attributes = {name: options.pop(name) for name in ("partitions", "on_error") if name in options}
    app = Application("squares")
    numbers = app.read("numbers", ListInput(Number, items))
    numbers.enrich("square", function, Square, **options, **attributes).write("sink", CollectorSink(Square))
    return app


async def square(number: Number) -> Square:
    await asyncio.sleep(0)
    return Square(number.value, number.value**2)


SQUARES = [Square(n, n * n) for n in range(40)]


@pytest.mark.parametrize("concurrency", [1, 4, 40])
def test_so_many_calls_run_at_once_and_no_more(concurrency: int) -> None:
    running, most = [0], [0]

    async def watched(number: Number) -> Square:
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(0)
        running[0] -= 1
        return Square(number.value, number.value**2)

    assert run_local(application(watched, concurrency=concurrency)).collected("sink") == SQUARES
    assert most == [concurrency]


def test_a_failed_call_is_made_again() -> None:
    calls: Counter[int] = Counter()

    async def shaky(number: Number) -> Square:
        calls[number.value] += 1
        if calls[number.value] <= number.value % 3:
            raise ConnectionError
        return Square(number.value, number.value**2)

    assert run_local(application(shaky, retries=2, back_off=0)).collected("sink") == SQUARES
    assert calls == Counter({n: n % 3 + 1 for n in range(40)})


def test_without_further_attempts_it_is_an_error_of_the_operator() -> None:
    async def broken(number: Number) -> Square:
        raise ConnectionError(number.value)

    with pytest.raises(OperatorError, match=r"`square` .*ConnectionError: 0"):
        run_local(application(broken, NUMBERS[:1], retries=1, back_off=0))


def test_a_call_that_takes_too_long_is_cancelled() -> None:
    cancelled: list[int] = []

    async def forever(number: Number) -> Square:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(number.value)
        raise AssertionError

    with pytest.raises(OperatorError, match=r"TimeoutError: the function took longer than `timeout`, 0.01 s"):
        run_local(application(forever, NUMBERS[:2], timeout="10ms"))
    assert set(cancelled) == {0, 1}


@pytest.mark.parametrize("partitions", [1, 3])
def test_failed_tuples_become_dead_letters_and_no_call_is_made_twice(partitions: int) -> None:
    calls: Counter[int] = Counter()

    async def some(number: Number) -> Square:
        calls[number.value] += 1
        await asyncio.sleep(0)
        if number.value % 5 == 0:
            raise LookupError(number.value)
        return Square(number.value, number.value**2)

    app = application(some, on_error="SKIP", partitions=partitions)
    app.dead_letters(CollectorSink())
    run = run_local(app)
    assert sorted(run.collected("sink")) == [one for one in SQUARES if one.value % 5]
    assert len(run.collected("dead_letters")) == 8
    assert calls == Counter(range(40))


def test_results_have_the_times_of_their_tuples() -> None:
    async def value(timed: Timed) -> Number:
        for _ in range(10 - timed.value):
            await asyncio.sleep(0)
        return Number(timed.value)

    start = datetime(2026, 1, 1, tzinfo=UTC)
    items = [Timed(n, start + timedelta(seconds=20 * n)) for n in range(10)]
    app = Application("times")
    values = app.read("timed", ListInput(Timed, items, "time", lateness="0s")).enrich("value", value)
    counts = {"start": aggregate.window_start(), "sum": aggregate.sum("value")}
    values.process("sums", Windowed(tumbling("1m"), values=counts, key="value")).write(
        "sink", CollectorSink()
    )
    found = {row["sum"]: row["start"] for row in run_local(app).collected("sink")}
    assert found == {n: start + timedelta(minutes=n // 3) for n in range(10)}


def test_objects_go_in_and_out() -> None:
    async def double(value: Any) -> Any:
        return [value, value]

    app = Application("objects")
    app.read("in", ListInput(object, ["a", None])).enrich("double", double, object).write(
        "sink", CollectorSink()
    )
    assert run_local(app).collected("sink") == [["a", "a"], [None, None]]


def test_a_callable_that_returns_no_awaitable_is_an_error_with_the_remedy() -> None:
    with pytest.raises(OperatorError, match="returned a Square, which cannot be awaited"):
        run_local(application(lambda number: Square(number.value, 0)))
    assert run_local(application(functools.partial(square))).collected("sink") == SQUARES


def test_calls_that_are_forgotten_while_another_loop_runs() -> None:
    async def number(row: int) -> int:
        return row

    async def elsewhere(forgotten: list[Calls]) -> None:
        forgotten.clear()

    calls = Calls()
    assert calls.of([1], number, 1) == [(1, None)]
    forgotten = [calls]
    del calls
    asyncio.run(elsewhere(forgotten))


@pytest.mark.parametrize("is_used", [False, True])
def test_calls_leave_the_loop_of_their_thread_as_it_was(is_used: bool) -> None:
    async def number(row: int) -> int:
        return row

    with contextlib.closing(asyncio.new_event_loop()) as own:
        asyncio.set_event_loop(own)
        calls = Calls()
        if is_used:
            calls.of([1], number, 1)
        del calls
        assert asyncio.get_event_loop() is own
        asyncio.set_event_loop(None)
