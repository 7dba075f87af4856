"""One application of three regions: numbered rows, and two checks that read them from a queue, one slow.

Each check fails if a row of a key is missing, comes twice or out of order. All three regions write their rows
to files below `--output`. The source goes on until the file `enough` is there.
"""

import time
from pathlib import Path

import queued
from queued import Numbered, PassOn

from ridgeline import Application, InputOperator, OutputPort, State
from ridgeline.operators import FileOutput


class Rows(InputOperator):
    """`a_window` rows a window, until the file `enough` is in `folder`."""

    output = OutputPort(Numbered)
    folder: str = ""
    a_window: int = 20
    keys: int = 16
    position = State(0)

    def emit_tuples(self):
        for number in range(self.position, self.position + self.a_window):
            self.output.emit(Numbered(number % self.keys, number // self.keys))
        self.position += self.a_window
        if Path(self.folder, "enough").exists():
            self.finish()


class Check(queued.Check):
    """Takes `seconds` for each window; fails as long as the file `broken` is in `folder`."""

    folder: str = ""
    seconds: float = 0.0

    def end_window(self):
        if Path(self.folder, "broken").exists():
            raise ValueError("the check is broken")
        time.sleep(self.seconds)


def application(output: str, name: str = "regional", partitions: int = 2, keep: str = "1h") -> Application:
    app = Application(name, window="20ms")
    rows = app.add_operator("rows", Rows(folder=output))
    pass_on = app.add_operator("pass_on", PassOn(), partitions=partitions)
    sent = app.add_operator("sent", files(output, "sent"))
    fast = app.add_operator("fast", Check(), partitions=partitions)
    slow = app.add_operator(
        "slow", Check(folder=output, seconds=0.1), partitions=1 + partitions % 3, recovery_attempts=1
    )
    app.add_stream("rows", rows.output, pass_on.rows)
    app.add_stream(
        "passed",
        pass_on.passed,
        sent.input,
        fast.rows,
        slow.rows,
        decoupled={fast.rows, slow.rows},
        keep=keep,
    )
    for kind, check in (("fast", fast), ("slow", slow)):
        kept = app.add_operator(f"{kind}_files", files(output, kind))
        app.add_stream(f"{kind}_rows", check.checked, kept.input)
    return app


def files(output: str, name: str) -> FileOutput:
    return FileOutput(path=f"{output}/{name}", format="jsonl", roll_seconds=0.2)
