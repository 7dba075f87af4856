"""Joins of two streams whose records are in the same window of record time, or near to each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ridgeline.api.context import OperatorContext
from ridgeline.api.support.duration import Duration, parse_duration
from ridgeline.api.times import Microseconds
from ridgeline.operators._divided import SWEEPS
from ridgeline.operators._pair_join import PairJoin
from ridgeline.operators._windows import Sliding


class WindowJoin(PairJoin):
    """Join two streams: records of one key that are in the same tumbling window of record time.

    As `WithinJoin`, but for when records meet. `windows`: `tumbling("1m")`, also with a zone. A pair comes as
    soon as both are there. A record that meets none comes once the watermark has passed the end of its
    window. It is late if its window had ended when its streaming window began.

    State: each record, until the watermark has passed the end of its window. It may be held until half of
    those that came with it are over. Results may be older than the watermark by the length of a window; the
    watermark that is passed on allows for it.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import WindowJoin, tumbling
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> Bid = NamedTuple("Bid", [("symbol", str), ("bid", float), ("time", datetime)])
        >>> Ask = NamedTuple("Ask", [("symbol", str), ("ask", float), ("time", datetime)])
        >>> def at(minute, second):
        ...     return datetime(2026, 1, 1, 12, minute, second, tzinfo=UTC)
        >>> bids = ListInput(Bid, [("A", 1.0, at(0, 59)), ("A", 2.0, at(1, 0))], "time", lateness="5s")
        >>> asks = ListInput(Ask, [("A", 3.0, at(1, 58))], "time", lateness="5s")
        >>> app = Application("quotes")
        >>> bids, asks = app.add_operator("bids", bids), app.add_operator("asks", asks)
        >>> join = app.add_operator("join", WindowJoin("symbol", tumbling("1m")))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("bids", bids.output, join.left)
        >>> app.add_stream("asks", asks.output, join.right)
        >>> app.add_stream("pairs", join.output, sink.input)
        >>> [(row["bid"], row["ask"]) for row in run_local(app).collected("sink")]
        [(2.0, 3.0)]
    """

    state_depends_on = (*PairJoin.state_depends_on, "windows")

    windows: Sliding

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, and windows that overlap."""
        faults = super().property_faults()
        if self.windows.slide != self.windows.size:
            faults.append(("windows", self.windows, "must be tumbling"))
        return faults

    def setup(self, context: OperatorContext) -> None:
        """Results may be as old as a window is long."""
        super().setup(context)
        context.watermark_delay = self.windows.longest

    def spans(self, times: Microseconds) -> tuple[Microseconds, Microseconds]:
        """All of each record's window."""
        starts = self.windows.last_starts(times)
        return starts, self.windows.ends(starts) - 1

    def ends(self, times: Microseconds) -> Microseconds:
        """The end of each record's window."""
        return self.windows.ends(self.windows.last_starts(times))

    def over_before(self, watermark: int) -> int:
        """Those before the window in which the watermark is."""
        return int(self.windows.last_starts(np.array([watermark]))[0])

    def is_late(self, times: Microseconds, watermark: int) -> npt.NDArray[np.bool_]:
        """Those whose window has ended."""
        return self.ends(times) <= watermark


class WithinJoin(PairJoin):
    """Join two streams: records of one key whose times are at most `within` apart.

    Inputs: `left` and `right`, streams with record times. Output: for each pair the columns of `left`, then
    those of `right` without its key; a name that both have gets the `suffix`. A pair comes as soon as both
    are there, and has the later of their times.

    `on`: a column that both sides have, several, or a mapping such as `{"id": "order"}` from columns of
    `left` to those of `right`. A key with a null in it equals no other. `how` is "inner" for the pairs only.
    It is "left" for each record of `left` that meets none too, with nulls. It is "full" for those of `right`
    as well, and "anti" for only the records of `left` that meet none. A record that meets none has its own
    time. It comes once the watermark is `within` past it, at most an eighth of `within` later.

    A record is late if it is older than the watermark was when its streaming window began. Late records, and
    those without a time, are counted and go to the error ports `late_left` and `late_right`. Raises
    RidgelineError for streams without record times.

    State: each record, until the watermark is `within` past it, at most an eighth later. It may be held until
    half of those that came with it are over. The metric `held_records` says how many are. A stream that
    stands still holds the watermark back, and so the records of the other: declare `idle_after` at its input.

    Partitions: by `on`, the same on both sides. Round robin is refused with RidgelineError: a record would
    not meet its partners.

    Example:
        >>> from datetime import UTC, datetime
        >>> from typing import NamedTuple
        >>> from ridgeline import Application
        >>> from ridgeline.operators import WithinJoin
        >>> from ridgeline.testing import CollectorSink, ListInput, run_local
        >>> View = NamedTuple("View", [("user", str), ("page", str), ("time", datetime)])
        >>> Order = NamedTuple("Order", [("user", str), ("cents", int), ("time", datetime)])
        >>> def at(minute):
        ...     return datetime(2026, 1, 1, 12, minute, tzinfo=UTC)
        >>> views = [("ann", "/a", at(0)), ("ann", "/b", at(9)), ("bob", "/a", at(9))]
        >>> app = Application("orders")
        >>> views = app.add_operator("views", ListInput(View, views, "time", lateness="1m"))
        >>> orders = [("ann", 5, at(12)), ("cyd", 7, at(12))]
        >>> orders = app.add_operator("orders", ListInput(Order, orders, "time", lateness="1m"))
        >>> join = app.add_operator("join", WithinJoin("user", "10m", how="left"))
        >>> sink = app.add_operator("sink", CollectorSink())
        >>> app.add_stream("views", views.output, join.left)
        >>> app.add_stream("orders", orders.output, join.right)
        >>> app.add_stream("pairs", join.output, sink.input)
        >>> for row in run_local(app).collected("sink"):
        ...     print(row["user"], row["page"], row["cents"])
        ann /b 5
        ann /a None
        bob /a None
    """

    within: Duration

    def setup(self, context: OperatorContext) -> None:
        """Records that meet none are emitted when the watermark has passed them by that much."""
        super().setup(context)
        self.width = round(parse_duration(self.within) * 1_000_000)
        if any(self.outer):
            context.watermark_delay = self.width + self.pause

    @property
    def pause(self) -> int:
        """An eighth of `within`."""
        return max(1, self.width // SWEEPS)

    def spans(self, times: Microseconds) -> tuple[Microseconds, Microseconds]:
        """From `within` before to `within` after each record."""
        return times - self.width, times + self.width

    def ends(self, times: Microseconds) -> Microseconds:
        """Once the watermark is more than `within` past them."""
        return times + self.width + 1

    def over_before(self, watermark: int) -> int:
        """Those that the watermark has passed by more than `within`."""
        return watermark - self.width
