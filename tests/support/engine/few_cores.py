"""Run applications on a Spark of their own: `python few_cores.py MASTER FOLDER [lent]` prints what came out.

`lent`: the SparkContext is the user's, who has started it without us.
"""

import json
import sys
from pathlib import Path

from pyspark import SparkContext

from ridgeline import RidgelineError
from ridgeline.engine.driver.run.launch import Options, launch
from ridgeline.measure.events import SlotJoined
from ridgeline.plan.planner import plan_application
from support.engine.applications import payments_application
from support.engine.spark_sources import rate_application

SINKS = ("balance_store", "top_store", "rejected_store")


def run(app, master, checkpoint, windows, context):
    """The run, its slots, and how many containers its plan has."""
    plan, joined, runs = plan_application(app), [], []

    def observe(event):
        if isinstance(event, SlotJoined):
            joined.append((event.slot, event.containers))

    options = Options(master, {}, str(checkpoint), windows)
    launch(plan, options, observe=observe, started=runs.append, context=context)
    return runs[0].publishers, joined, len(plan.execution.containers)


def outcome(name, master, folder, context):
    """What an application came to, as JSON."""
    app, windows = (payments_application(), None) if name == "payments" else (rate_application(), 3)
    try:
        publishers, joined, containers = run(app, master, folder / name, windows, context)
    except RidgelineError as error:
        return {"error": str(error)}
    sinks = SINKS if name == "payments" else ("store",)
    results = {sink: sorted(map(list, publishers[sink].tuples(None))) for sink in sinks}
    return {"results": results, "slots": joined, "containers": containers}


def main():
    master, folder = sys.argv[1], Path(sys.argv[2])
    context = SparkContext(master) if sys.argv[3:] else None
    names = ("payments", "rate")
    print(json.dumps({name: outcome(name, master, folder, context) for name in names}, default=str))


if __name__ == "__main__":
    main()
