"""Operators that keep no state: nothing of them is committed, and what an outage passed over is skipped."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pytest

from ridgeline import Application, InputPort, Operator, OutputPort, State, ValidationError
from ridgeline.engine.driver.checkpoint.planning import read_last
from ridgeline.engine.files.storage import MemoryStorage
from ridgeline.operators import FileInput
from ridgeline.testing import END_WINDOW, CollectorSink, Faults, ListInput, run_local
from support.measure.reports import operator_windows


class Number(NamedTuple):
    n: int


class Sums(Operator):
    input = InputPort(Number)
    output = OutputPort(Number)
    total = State(0)

    @input.process
    def add(self, number: Number) -> None:
        self.total += number.n
        self.output.emit(Number(self.total))


LOSSY: Any = {"processing_mode": "AT_MOST_ONCE", "keep_state": False}


def application(source: Any, **attributes: Any) -> Application:
    app = Application("lossy")
    numbers = app.read("numbers", source, **attributes)
    numbers.process("sums", Sums(), **LOSSY).write("sink", CollectorSink(Number), **LOSSY)
    return app


def ones(count: int) -> ListInput[Any]:
    return ListInput(Number, [item for _ in range(count) for item in ((1,), END_WINDOW)])


def test_no_state_is_committed_and_a_start_begins_anew() -> None:
    storage = MemoryStorage()
    first = run_local(application(ones(6)), checkpoint=storage, windows=4)
    assert [one.n for one in first.collected("sink")] == [1, 2, 3, 4]
    last = read_last(storage, "lossy")
    assert last is not None
    assert not any(version for key, version in last.states.items() if key.startswith("sums"))
    assert [one.n for one in run_local(application(ones(6)), checkpoint=storage).collected("sink")] == [1, 2]


def test_a_window_that_is_made_again_passes_it_by() -> None:
    run = run_local(application(ones(30)), faults=Faults(seed=3, rate=0.2, kinds=("kill",), quiet=True))
    dropped = [one for one in operator_windows(run.events) if one.dropped]
    assert dropped
    assert all(one.dropped.endswith("is made again") for one in dropped)
    collected = [one.n for one in run.collected("sink")]
    assert len(collected) == 30 - len({one.window_id for one in dropped})
    assert all(after in (before + 1, 1) for before, after in pairwise(collected))


@pytest.mark.parametrize("keeps", [True, False])
def test_an_input_goes_on_with_what_comes_after_the_outage(tmp_path: Path, *, keeps: bool) -> None:
    def numbers(until: Literal["end"] | None) -> Application:
        source = FileInput(f"{tmp_path}/in/*.jsonl", schema=Number, begin="latest", until=until)
        return application(source, **({} if keeps else LOSSY))

    (tmp_path / "in").mkdir()
    checkpoint = tmp_path / "checkpoint"
    run_local(numbers(None), checkpoint=checkpoint, windows=3)
    (tmp_path / "in" / "a.jsonl").write_text(json.dumps({"n": 5}) + "\n")
    found = run_local(numbers("end"), checkpoint=checkpoint).collected("sink")
    assert [one.n for one in found] == ([5] if keeps else [])


def test_it_needs_at_most_once_and_an_input_that_does_not_begin_again() -> None:
    app = Application("wrong")
    app.read("numbers", ones(1), keep_state=False).write("sink", CollectorSink(Number), **LOSSY)
    with pytest.raises(ValidationError) as caught:
        run_local(app)
    assert "`numbers.keep_state`: its state is part of exact results; make it AT_MOST_ONCE" in str(
        caught.value
    )
    assert 'give the input `begin="latest"`' in str(caught.value)
