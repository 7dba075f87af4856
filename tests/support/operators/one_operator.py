"""Run one operator between list inputs and a collecting sink, in process."""

from ridgeline import Application
from ridgeline.testing import END_WINDOW, CollectorSink, ListInput, run_local
from support.measure.reports import operator_windows


def collect(operator, inputs, output, *, partitions=1, properties=None, **attributes):
    """The tuples that an operator emits on a port, a list for each window.

    `inputs`: for each input port the schema of its tuples and a list of tuples a window.
    """
    app = Application("one", window="1s")
    app.add_operator("operator", operator, partitions=partitions, **attributes)
    for port, (schema, windows) in inputs.items():
        items = [item for window in windows for item in (*window, END_WINDOW)]
        source = app.add_operator(f"source_{port}", ListInput(schema, items))
        app.add_stream(f"to_{port}", source.output, getattr(operator, port))
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("from", getattr(operator, output), sink.input)
    run = run_local(app, properties=properties or {})
    return [run.collected("sink", window) for window in range(run.windows_committed)]


def values(windows):
    """The tuples of each window as plain tuples, sorted: what does not depend on partitions."""
    return [
        sorted(tuple(row.values()) if isinstance(row, dict) else tuple(row) for row in rows)
        for rows in windows
    ]


def ages(source, operator, output="output"):
    """The ages of an input operator's tuples behind an operator: (number, least, greatest) a window."""
    app = Application("one", window="1s")
    app.add_operator("source", source)
    app.add_operator("operator", operator)
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("to", source.output, operator.data)
    app.add_stream("from", getattr(operator, output), sink.input)
    events = operator_windows(run_local(app).events)
    samples = [sample for event in events for sample in event.ages if sample.place == "emit"]
    return [(sample.count, round(sample.minimum, 6), round(sample.maximum, 6)) for sample in samples]
