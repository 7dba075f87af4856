"""Join of two streams whose records are in the same window of record time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ridgeline.api.context import OperatorContext
from ridgeline.api.times import Microseconds
from ridgeline.operators._pair_join import PairJoin
from ridgeline.operators._windows import Sliding

_HOUR = 3_600_000_000


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

    windows: Sliding

    def property_faults(self) -> list[tuple[str, object, str]]:
        """Refuse a key that was changed, and windows that overlap."""
        faults = self.key_faults("on")
        if self.windows.slide != self.windows.size:
            faults.append(("windows", self.windows, "must be tumbling"))
        return faults

    def setup(self, context: OperatorContext) -> None:
        """Results may be as old as a window is long, and a day of a zone has 25 hours now and then."""
        super().setup(context)
        context.watermark_delay = self.windows.size + (0 if self.windows.zone is None else _HOUR)

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
