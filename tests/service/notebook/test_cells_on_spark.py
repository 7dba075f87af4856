"""Cells of a notebook on Spark: classes are defined in them, changed, and started again."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

pytestmark = [pytest.mark.spark, pytest.mark.slow]
MAKE = """
from ridgeline import Application, InputPort, Operator, OutputPort, State
from ridgeline.testing import CollectorSink, ListInput

def start(**options):
    app = Application("cells", window="50ms")
    source = app.add_operator("source", ListInput(object, [1, 2, 3]))
    times = app.add_operator("times", Times())
    sink = app.add_operator("sink", CollectorSink())
    app.add_stream("numbers", source.output, times.numbers)
    app.add_stream("products", times.products, sink.input)
    return app.start(context=context, quiet=True, **options)
"""
TIMES = """
class Times(Operator):
    numbers = InputPort(object)
    products = OutputPort(object)

    @numbers.process
    def multiply(self, number):
        self.products.emit({factor} * number)
"""


def test_a_class_of_a_cell_is_changed_and_started_again(spark_context, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RIDGELINE_HOME", str(tmp_path / "home"))
    shell = InteractiveShell.instance()
    shell.user_ns["context"] = spark_context

    def cell(text):
        result = shell.run_cell(text)
        result.raise_error()
        return result.result

    cell(MAKE)
    for factor in (2, 5):
        cell(TIMES.format(factor=factor))
        outcome = cell("handle = start()\nhandle.wait()")
        assert outcome.ended
        assert cell('handle.collected("sink")') == [factor, 2 * factor, 3 * factor]
        capsys.readouterr()
        handle = cell("handle")
        assert "finished after" in handle._repr_html_()
        out = capsys.readouterr().out
        assert out.count("finished after") == 1  # one text for the cell
        assert "Traceback" not in out
