"""Streams with another stream beside them: of the tuples that did not fit."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypeVar

from ridgeline.streams.stream import Stream

T_co = TypeVar("T_co", covariant=True, default=Any)


class Checked(Stream[T_co]):
    """The tuples that fit.

    Example:
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Line = NamedTuple("Line", [("text", str)])
        >>> Payment = NamedTuple("Payment", [("cents", int)])
        >>> app = Application("payments")
        >>> lines = app.read("lines", ListInput(Line, [('{"cents": 5}',), ("nothing",)]))
        >>> payments = lines.parse("payments", "text", schema=Payment)
        >>> sink = payments.write("sink", CollectorSink(Payment))
        >>> bad = payments.bad.write("bad", CollectorSink())
        >>> run = run_local(app)
        >>> run.collected("sink"), run.collected("bad")[0]["text"]
        ([Payment(cents=5)], 'nothing')
    """

    @property
    def bad(self) -> Stream[Any]:
        """The tuples that did not fit, with the reason."""
        operator: Any = self.point.operator
        return Stream(self.app, operator.bad)
