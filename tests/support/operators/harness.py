"""Run one operator through windows, and its publisher through commits, without plan, container or Spark."""

from __future__ import annotations

import io
import json
import pickle
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

from ridgeline.api import Clock, InputOperator, Operator, OperatorContext, Publisher, PublisherContext
from ridgeline.api.cells.per_instance import OWN
from ridgeline.api.errors import FencedError
from ridgeline.api.operator import operator_type, port_schema, state_cells
from ridgeline.api.support.properties import check_properties


class HandClock(Clock):
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def wall(self) -> float:
        return 1_767_225_600.0 + self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def wait(self, seconds: float, stop: threading.Event | None = None) -> bool:
        self.seconds += max(0.0, seconds)
        return stop is not None and stop.is_set()


def validated(operator: Operator) -> Operator:
    """As the plan does it: validated properties on a copy, prepared for the journey."""
    values, faults = check_properties(operator)
    assert not faults, faults
    copy = pickle.loads(pickle.dumps(operator))
    vars(copy).update(values)
    copy.settle_properties()
    return copy


def restore(operator: Operator, state: dict[str, Any]) -> None:
    for name, cell in state_cells(operator).items():
        cell.reset()
        cell.apply(state[name])


class Driven:
    """One partition of an operator.

    `rotate=True` gives every window to a new worker: a new copy, state restored from a snapshot.
    """

    def __init__(
        self,
        operator: Operator,
        *,
        partition: int = 0,
        partitions: int = 1,
        rotate: bool = False,
        clock: Clock | None = None,
        name: str = "under_test",
        run_id: str = "run1",
        staging: str = "",
        window_seconds: float = 1.0,
    ) -> None:
        self.window_seconds = window_seconds
        self.prototype = pickle.dumps(validated(operator))
        self.partition, self.partitions, self.rotate = partition, partitions, rotate
        self.clock = clock or HandClock()
        self.name, self.run_id, self.staging = name, run_id, staging
        self.window_id = 0
        self.attempts = 0
        self.state: dict[str, Any] | None = None
        self.operator: Any = None

    @property
    def finished(self) -> bool:
        return bool(self.operator is not None and vars(self.operator).get("_finished"))

    def worker(self) -> Any:
        """A new copy in a new container, with the state of the last committed window."""
        operator = pickle.loads(self.prototype)
        context = OperatorContext(
            application="test",
            name=self.name,
            operator_id=1,
            partition=self.partition,
            partitions=self.partitions,
            clock=self.clock,
            run_id=self.run_id,
            staging=self.staging,
            window_seconds=self.window_seconds,
        )
        operator.context = context
        for port in operator_type(type(operator)).outputs:
            getattr(operator, port).port_schema = port_schema(operator, port)
        operator.setup(context)
        if self.state is not None:
            restore(operator, self.state)
        return operator

    def window(
        self, *batches: pa.RecordBatch, commit: bool = True, begin: bool = True, end: bool = True
    ) -> Any:
        """Run the window.

        Returns (what was emitted, what was handed over). Not committed: the next call runs it again.

        An attempt that is not committed leaves its operator, as a container keeps it for the next attempt:
        with the old state.
        """
        if self.operator is None or self.rotate:
            self.operator = self.worker()
        operator = self.operator
        self.attempts += 1
        operator.context.window_id, operator.context.container_attempt = self.window_id, f"a{self.attempts}"
        operator.context.engine.window_time = round(self.clock.wall() * 1_000_000)
        before = {name: cell.snapshot() for name, cell in state_cells(operator).items()}
        kept = set(vars(operator))
        try:
            result = self.attempt(operator, batches, begin, end)
        except BaseException:
            commit = False
            raise
        finally:
            operator.context.engine.take("handed_over")
            for name in set(vars(operator)) - kept - {"_finished"}:
                if not name.startswith(OWN):
                    del vars(operator)[name]
            if not commit:
                vars(operator).pop("_finished", None)
                restore(operator, before)
        if commit:
            self.state = pickle.loads(
                pickle.dumps({name: cell.snapshot() for name, cell in state_cells(operator).items()})
            )
            self.window_id += 1
        return result

    def attempt(self, operator: Any, batches: Sequence[pa.RecordBatch], begin: bool, end: bool) -> Any:
        declared = operator_type(type(operator))
        for cell in state_cells(operator).values():
            cell.begin(self.window_id)
        outputs = [getattr(operator, port) for port in declared.outputs]
        for point in outputs:
            point.discard()
            point.open()
        if begin:
            operator.begin_window(self.window_id)
        if isinstance(operator, InputOperator):
            operator.emit_tuples()
        for rows in batches:
            getattr(operator, declared.inputs["input"].process_batch_name)(rows)
        if end:
            operator.end_window()
        emitted = [part.batch for point in outputs for part in point.drain()]
        return emitted, pickle.loads(pickle.dumps(operator.context.engine.take("handed_over")))

    def rows(self, windows: int = 10_000, each: Callable[[int], None] | None = None) -> list[list[Any]]:
        """The rows of each window until it finishes, or of so many windows; `each` is called after each."""
        result: list[list[Any]] = []
        for number in range(windows):
            emitted, _ = self.window()
            result.append([tuple(row.values()) for batch in emitted for row in batch.to_pylist()])
            if each is not None:
                each(number)
            if self.finished:
                break
        return result


class Published:
    """A publisher on its driver: stage, commit (state as JSON), publish; `crash` restarts it."""

    def __init__(
        self,
        operator: Operator,
        folder: Path,
        *,
        name: str = "under_test",
        run_id: str = "run1",
        spark: Any = None,
    ) -> None:
        self.operator = validated(operator)
        self.fenced = False
        self.clock = HandClock()
        self.text = io.StringIO()
        self.context = PublisherContext(
            application="test",
            operator=name,
            run_id=run_id,
            clock=self.clock,
            console=Console(file=self.text, width=100, force_terminal=False),
            staging=str(folder / "staging"),
            spark=lambda: spark,
            epoch=1,
            check_owner=self.check_owner,
        )
        self.manifest: str = "null"
        self.last = -1
        self.start()

    def check_owner(self) -> None:
        if self.fenced:
            raise FencedError("the checkpoint was taken over by another driver")

    def start(self) -> None:
        publisher = self.operator.publisher()
        assert publisher is not None
        self.publisher: Publisher = publisher
        self.publisher.open(self.context, json.loads(self.manifest))

    def stage(self, window_id: int, values: Sequence[Any]) -> None:
        """Stage and commit, no more."""
        self.manifest = json.dumps(self.publisher.stage(window_id, values))
        self.last = window_id

    def commit(self, window_id: int, values: Sequence[Any]) -> None:
        self.stage(window_id, values)
        self.publisher.publish(window_id)

    def crash(self) -> None:
        """Kill the driver and start another: open, and publish the last committed window again."""
        self.start()
        if self.last >= 0:
            self.publisher.publish(self.last)


def batch(**columns: Iterable[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: list(values) for name, values in columns.items()})
