"""A driver that changes its application over and over, to be killed: `python -m` it `OUTPUT CHECKPOINT SEED`.

Each change sets the mark that the numbers carry, besides what else it does. So the windows say which changes
they had. A driver goes on after the changes that the checkpoint has.
"""

import sys
from pathlib import Path

from ridgeline.engine.driver.run.launch import Options, launch
from ridgeline.measure.events import WindowCommitted
from ridgeline.operators import FileOutput
from ridgeline.plan.edits import SetProperty
from ridgeline.stram.changes import EditPlan
from support.engine.on_spark import planner_of
from support.manifests import last_of
from support.testing.edited import RandomEdits, application

WINDOWS = 400
CHANGES = 60


def collector(output):
    """What publishes the windows of an operator, by its name."""
    return lambda name: FileOutput(path=f"{output}/{name}", format="jsonl", roll_seconds=0)


def changes(seed, output):
    """All changes, in order."""
    edits = RandomEdits(seed, collector(output))
    return [(*edits.change(), SetProperty("numbers", "mark", number + 1)) for number in range(CHANGES)]


def drive(output, checkpoint, seed):
    """Run until the numbers are over, and ask for one change after the other."""
    app = application(WINDOWS, partitions=2, collector=collector(output), recovery_attempts=9)
    planner = planner_of(app)
    last = last_of(checkpoint) if Path(checkpoint, "run.json").exists() else None
    done = 0 if last is None else int(last.properties.get("numbers.mark", [0])[0])
    left = changes(seed, output)[done:]
    runs, asked = [], []

    def observe(event):
        if isinstance(event, WindowCommitted) and runs and (not asked or asked[-1].done.is_set()):
            for one in asked[-1:]:
                assert one.state == "APPLIED", one.reason
            if left and event.window_id < WINDOWS - 40:
                asked.append(runs[0].changes.ask(EditPlan(left.pop(0)), "test"))

    options = Options(master="local[2]", checkpoint=checkpoint)
    launch(
        planner.first(checkpoint, app.name), options, planner=planner, observe=observe, started=runs.append
    )
    print("done")


if __name__ == "__main__":
    drive(sys.argv[1], sys.argv[2], int(sys.argv[3]))
