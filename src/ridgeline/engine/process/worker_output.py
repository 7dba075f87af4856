"""Mark what operators print in a worker: `[balances:1] text`, the operator's name and its partition.

The workers of a host share one standard error, so their lines arrive mixed. A container names the operator
whose callbacks it runs (`enter_operator`): one attribute per operator and window, nothing per tuple. Lines
are written whole, so that lines of two workers do not mix. Threads that an operator starts, child processes
and native code are not marked.

Each line is kept for the driver too, see `said_lines`: also those of threads, as of no operator.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ridgeline.engine.process.said_lines import said

if TYPE_CHECKING:
    from ridgeline.api.context import OperatorContext

_LONGEST_PENDING = 4096
"""Characters of an unfinished line that are held back at most."""


@dataclass(frozen=True, slots=True)
class CurrentOperator:
    """The operator that a thread runs. `name`: of a unifier, it includes the port (`top.top#unifier`)."""

    name: str
    context: OperatorContext


class _Current(threading.local):
    operator: CurrentOperator | None = None
    keeps: bool = True
    """Whether what the thread writes is kept for the driver."""


class _Unfinished(threading.local):
    """The line of a thread that runs no operator, as far as there is one."""

    text: str = ""


_current = _Current()
_marked: list[MarkedStream] = []
"""The streams of this process that mark lines."""


def enter_operator(operator: CurrentOperator) -> None:
    """Let what the calling thread prints and logs from now on count as this operator's."""
    _current.operator = operator


def leave_operator() -> None:
    """End the last operator's turn in the calling thread, and write out a line that it has not finished."""
    if _current.operator is not None:
        for stream in _marked:
            stream.end_turn()
        _current.operator = None


def current_operator() -> CurrentOperator | None:
    """The operator whose callbacks the calling thread runs; None outside of them."""
    return _current.operator


def of_this_thread() -> Mapping[str, object]:
    """A view for other threads: `operator` is what `current_operator` says in the calling thread."""
    return _current.__dict__


@contextlib.contextmanager
def not_kept() -> Iterator[None]:
    """Within the block, keep nothing for the driver that the calling thread writes."""
    _current.keeps = False
    try:
        yield
    finally:
        _current.keeps = True


def keep(source: str, text: str, level: str = "", logger: str = "") -> None:
    """Keep lines for the driver, as said by the operator that the calling thread runs."""
    _keep(_current.operator, source, text, level, logger)


def _keep(
    operator: CurrentOperator | None, source: str, text: str, level: str = "", logger: str = ""
) -> None:
    if operator is None:
        said.add(("", -1), -1, source, text, level, logger)
    else:
        context = operator.context
        said.add((operator.name, context.partition), context.window_id, source, text, level, logger)


def _bounded(line: str) -> str:
    """The beginning of a line that is not at its end; of a bar of progress the last state."""
    return line if len(line) <= _LONGEST_PENDING else line.rpartition("\r")[2][:_LONGEST_PENDING]


class MarkedStream:
    """A text stream that marks the lines of operators and writes each at once.

    All else is the wrapped stream's own. `source`: its name where lines are kept.
    """

    def __init__(self, stream: Any, source: str = "stderr") -> None:
        self.stream = stream
        self._source = source
        self._unfinished = _Unfinished()
        self._operator: CurrentOperator | None = None
        self.pending = ""
        """The unfinished line that is held back."""
        self._begun = False
        """Whether the beginning of the unfinished line is written already."""
        self._head = ""
        """That beginning, as far as it is kept."""

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write the lines that are complete and keep the rest; returns the length of the text.

        A line that another operator has left unfinished is ended first.
        """
        operator = _current.operator
        if operator is None:
            if said.is_open and _current.keeps and isinstance(text, str):
                self._keep_other(text)
            return int(self.stream.write(text))
        if operator is not self._operator:
            self.end_turn()
            if self._begun:
                self.stream.write("\n")
            self._operator, self._begun = operator, False
        complete, newline, self.pending = (self.pending + text).rpartition("\n")
        if newline:
            if said.is_open and _current.keeps:
                _keep(operator, self._source, self._head + complete)
            self._head = ""
            marked = [f"{self._mark}{line}\n" for line in complete.split("\n")]
            if self._begun:
                marked[0] = marked[0].removeprefix(self._mark)
            self.stream.write("".join(marked))
            self._begun = False
        if len(self.pending) > _LONGEST_PENDING:
            self.flush()
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Write out what is held back, also of a line that is not complete."""
        if self.pending:
            self.stream.write(self.pending if self._begun else self._mark + self.pending)
            self._head = _bounded(self._head + self.pending)
            self.pending, self._begun = "", True
        self.stream.flush()

    def end_turn(self) -> None:
        """The operator's turn is over: nothing is held back any more."""
        if self.pending:
            self.flush()
        if self._head and said.is_open:
            _keep(self._operator, self._source, self._head)
        self._head = ""

    def _keep_other(self, text: str) -> None:
        """Keep the complete lines of a thread that runs no operator."""
        unfinished = self._unfinished
        lines, newline, rest = text.rpartition("\n")
        if newline:
            _keep(None, self._source, unfinished.text + lines)
            unfinished.text = _bounded(rest)
        else:
            unfinished.text = _bounded(unfinished.text + text)

    @property
    def _mark(self) -> str:
        operator = self._operator
        return "" if operator is None else f"[{operator.name}:{operator.context.partition}] "


def mark_output() -> None:
    """Mark what the operators of this process, and of processes forked from it, print from now on."""
    for name in ("stdout", "stderr"):
        _marked.append(MarkedStream(getattr(sys, name), name))
        setattr(sys, name, _marked[-1])
