"""Mark what operators print in a worker: `[balances:1] text`, the operator's name and its partition.

The workers of a host share one standard error, so their lines arrive mixed. A container names the operator
whose callbacks it runs (`enter_operator`): one attribute per operator and window, nothing per tuple. Lines
are written whole, so that lines of two workers do not mix. Threads that an operator starts, child processes
and native code are not marked.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

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
            if stream.pending:
                stream.flush()
        _current.operator = None


def current_operator() -> CurrentOperator | None:
    """The operator whose callbacks the calling thread runs; None outside of them."""
    return _current.operator


def of_this_thread() -> Mapping[str, object]:
    """A view for other threads: `operator` is what `current_operator` says in the calling thread."""
    return _current.__dict__


class MarkedStream:
    """A text stream that marks the lines of operators and writes each at once.

    All else is the wrapped stream's own.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self._operator: CurrentOperator | None = None
        self.pending = ""
        """The unfinished line that is held back."""
        self._begun = False
        """Whether the beginning of the unfinished line is written already."""

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write the lines that are complete and keep the rest; returns the length of the text.

        A line that another operator has left unfinished is ended first.
        """
        operator = _current.operator
        if operator is None:
            return int(self.stream.write(text))
        if operator is not self._operator:
            self.flush()
            if self._begun:
                self.stream.write("\n")
            self._operator, self._begun = operator, False
        complete, newline, self.pending = (self.pending + text).rpartition("\n")
        if newline:
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
            self.pending, self._begun = "", True
        self.stream.flush()

    @property
    def _mark(self) -> str:
        operator = self._operator
        return "" if operator is None else f"[{operator.name}:{operator.context.partition}] "


def mark_output() -> None:
    """Mark what the operators of this process, and of processes forked from it, print from now on."""
    for name in ("stdout", "stderr"):
        _marked.append(MarkedStream(getattr(sys, name)))
        setattr(sys, name, _marked[-1])
