"""Drivers of one `FileOutput` that share checkpoint and folder, and steps at which they can be killed."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ridgeline.api import Operator, PublisherContext
from ridgeline.api.errors import FencedError
from ridgeline.connect.output_files import OutputFiles, SummedStream
from support.operators.harness import Driven, HandClock, batch, validated


class KilledError(BaseException):
    """Stands for the death of a driver."""


class Steps:
    """Call `each(number, what)` before each changing file operation of outputs, and each commit."""

    def __init__(self, patch: pytest.MonkeyPatch, *, copying: bool = False) -> None:
        patch.setattr(
            os, "fsync", lambda _descriptor: None
        )  # a process that dies loses nothing that it has written
        self.number = 0
        self.each: Callable[[int, str], None] = lambda _number, _what: None
        for name in ("touch", "delete", "make_folder", "remove_folder", "sync"):
            patch.setattr(OutputFiles, name, self._counted(name, getattr(OutputFiles, name)))
        write = SummedStream.write

        def write_counted(stream: SummedStream, data: Any) -> int:
            if not stream.size:
                self("write", "")
            return write(stream, data)

        patch.setattr(SummedStream, "write", write_counted)
        patch.setattr(
            OutputFiles, "move", self._copying_move if copying else self._counted("move", OutputFiles.move)
        )
        writing = OutputFiles.writing

        @contextlib.contextmanager
        def counted(files: OutputFiles, path: str) -> Iterator[SummedStream]:
            self("writing", path)
            with writing(files, path) as out:
                yield out

        patch.setattr(OutputFiles, "writing", counted)

    def __call__(self, what: str, *arguments: Any) -> None:
        number, self.number = self.number, self.number + 1
        names = [argument.rpartition("/")[2] for argument in arguments if isinstance(argument, str)]
        self.each(number, f"{what} {' '.join(names)}")

    def _counted(self, what: str, function: Any) -> Any:
        def call(this: Any, *arguments: Any) -> Any:
            self(what, *arguments)
            return function(this, *arguments)

        return call

    def _copying_move(self, source: str, target: str) -> None:
        """As object stores move: copy, then delete."""
        self("copy", source, target)
        data = Path(source).read_bytes()
        Path(target).write_bytes(data)
        self("delete", source)
        Path(source).unlink(missing_ok=True)


class Store:
    """The checkpoint that drivers share: epochs and manifests."""

    def __init__(self, folder: Path, partitions: int = 1) -> None:
        self.folder, self.partitions = folder, partitions
        self.epoch = 0
        self.manifests: list[str] = []
        self.clock = HandClock()
        self.lock = threading.Lock()

    def rows(self, window: int) -> list[int]:
        return [window * self.partitions + partition for partition in range(self.partitions)]

    @property
    def committed(self) -> list[int]:
        return [row for window in range(len(self.manifests)) for row in self.rows(window)]


class Driver:
    """One driver: it opens the checkpoint, runs windows, and may be killed or fenced off."""

    def __init__(self, store: Store, output: Operator, steps: Steps | None = None) -> None:
        self.store, self.steps = store, steps
        with store.lock:
            store.epoch += 1
            self.epoch = store.epoch
        self.parts = [
            Driven(output, partition=number, partitions=store.partitions, name="out")
            for number in range(store.partitions)
        ]
        for part in self.parts:
            part.attempts = 1000 * self.epoch
        self.publisher: Any = validated(output).publisher()
        self.publisher.open(self._context(), json.loads(store.manifests[-1]) if store.manifests else None)
        if store.manifests:
            self.publisher.publish(len(store.manifests) - 1)

    def _context(self) -> PublisherContext:
        return PublisherContext(
            application="test",
            operator="out",
            run_id="run1",
            clock=self.store.clock,
            console=None,  # type: ignore[arg-type]
            staging=str(self.store.folder / "staging"),
            spark=lambda: None,
            epoch=self.epoch,
            check_owner=self.check_owner,
        )

    def columns(self, row: int) -> dict[str, list[int]]:
        """The rows of a partition in a window."""
        return {"n": [row]}

    def check_owner(self) -> None:
        if self.store.epoch != self.epoch:
            raise FencedError("the checkpoint was taken over by another driver")

    def window(self) -> None:
        """Run, commit and publish the next window."""
        window = len(self.store.manifests)
        values = []
        for part, row in zip(self.parts, self.store.rows(window), strict=True):
            part.window_id = window
            values += part.window(batch(**self.columns(row)))[1]
        state = json.dumps(self.publisher.stage(window, values))
        self.check_owner()
        if self.steps is not None:
            self.steps("commit", str(window))
        with self.store.lock:
            if len(self.store.manifests) != window:
                raise FencedError("the window was committed by another driver")
            self.store.manifests.append(state)
        self.publisher.publish(window)
        self.store.clock.seconds += 1


def read(file: Path) -> list[Any]:
    if file.suffix == ".jsonl":
        return [json.loads(line)["n"] for line in file.read_text().splitlines()]
    return pq.read_table(file)["n"].to_pylist()  # type: ignore[no-any-return]


def visible(folder: Path, read_before: dict[tuple[str, int], list[Any]] | None = None) -> list[Any]:
    """The rows that a reader sees; files in `read_before` are opened again only if they have changed."""
    known = {} if read_before is None else read_before
    rows = []
    for file in sorted(folder.glob("out-*")):
        key = file.name, file.stat().st_mtime_ns
        if key not in known:
            known[key] = read(file)
        rows += known[key]
    return rows


Life = tuple[Callable[[], None], Callable[[], None], Callable[[], None]]


def die_at_any_step(steps: Steps, make: Callable[[int], Life], most: int = 1000) -> None:
    """Kill a driver at each of its steps in turn, and let another one finish what it has begun.

    `make(number)`: what a driver does in its life, what is done at each step, and at the end.
    """
    for survive in range(most):
        live, look, finish = make(survive)

        def each(number: int, what: str, survive: int = survive, look: Callable[[], None] = look) -> None:
            look()
            if number == survive:
                raise KilledError(what)

        steps.number, steps.each = 0, each
        died = False
        try:
            live()
        except KilledError:
            died = True
            live()
        finish()
        if not died:
            break
    assert 20 < survive < most - 1
