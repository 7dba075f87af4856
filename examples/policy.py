"""Who decides: an own listener, a policy that ships, and what the application has promised.

Run it in this folder, where its text is: `ridgeline run policy.py`. See `ridgeline changes --decisions policy` meanwhile.
"""

from typing import NamedTuple

from ridgeline import Application
from ridgeline.operators import FileOutput, FileReplayInput, Map
from ridgeline.policies import CriticalPathPolicy, OperatorFigures, Repartition, StatsListener
from ridgeline.sla import caught_up_within, error_share, latency


class Line(NamedTuple):
    text: str


class MoreWhenLate(StatsListener):
    """One partition more when the operator is late for a minute and is what the application waits for."""

    limit_seconds: float = 0.5

    def observe(self, figures: OperatorFigures) -> Repartition | None:
        late = figures.latency.p99_seconds > self.limit_seconds and figures.critical_path_share > 0.8
        if late and figures.for_seconds(60).critical_path_share > 0.8:
            return Repartition(figures.partitions + 1, note=f"p99 {figures.latency.p99_seconds:.1f} s")
        return None


def upper(line: Line) -> Line:
    return Line(line.text.upper())


app = Application("policy", window="100ms")
lines = app.add_operator("lines", FileReplayInput(path="words.txt", schema=Line, rows_per_second=1000))
parse = app.add_operator("parse", Map(upper, schema=Line), partitions=2, stats_listeners=[MoreWhenLate()])
store = app.add_operator("store", FileOutput(path="upper", format="jsonl"))
app.add_stream("lines", lines.output, parse.data)
app.add_stream("upper", parse.output, store.input)
app.add_policy(CriticalPathPolicy(max_slots=8, cooldown="30s"))
app.promise(latency("store", p99="2s"), caught_up_within("10m"), error_share("parse", at_most=0.001))
