"""What the screen changes in an application that runs: each asks first."""

import pytest
from textual.widgets import Input, OptionList

from ridgeline import Application
from ridgeline.cli.top.dialogs import Confirm, Property
from ridgeline.operators import RandomEventGenerator
from ridgeline.service import registry
from ridgeline.testing import CountSink
from support.cli.screens import on_screen

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def numbers():
    app = Application("numbers", window="100ms")
    source = app.add_operator("source", RandomEventGenerator(tuples_per_window=100, maximum=9))
    sink = app.add_operator("sink", CountSink())
    app.add_stream("numbers", source.integer_data, sink.input)
    return app


def test_a_property_is_set_windows_pause_and_the_run_ends(spark_context):
    handle = numbers().start(context=spark_context, quiet=True)

    async def confirmed(screen, text):
        await screen.until(lambda: isinstance(screen.app.screen, Confirm), "the question")
        await screen.until(lambda: text in screen.app.export_screenshot().replace("&#160;", " "), text)
        await screen.pilot.press("y")

    async def check(screen):
        await screen.pilot.press("slash", *"source", "enter", "e")
        await screen.until(lambda: isinstance(screen.app.screen, Property), "the properties")
        choices = screen.app.screen.query_one(OptionList)
        rows = [str(choices.get_option_at_index(number).prompt) for number in range(choices.option_count)]
        choices.highlighted = next(n for n, row in enumerate(rows) if row == "tuples_per_window = 100")
        await screen.pilot.press("enter")
        value = screen.app.screen.query_one(Input)
        await screen.until(lambda: value.has_focus, "the line for the value")
        assert value.value == "100"
        value.value = "200"
        await screen.pilot.press("enter")
        await confirmed(screen, "ridgeline set-operator-property numbers source tuples_per_window 200")
        path = "/logicalPlan/operators/source/properties"
        await screen.until(lambda: screen.client.get(path)["tuples_per_window"] == 200, "the property")

        await screen.pilot.press("p")
        await confirmed(screen, "ridgeline pause numbers")
        await screen.until(lambda: "paused" in screen.text("sentence"), "the pause")
        await screen.pilot.press("p")
        await confirmed(screen, "ridgeline resume numbers")
        await screen.until(lambda: handle.state == "RUNNING", "windows")
        await screen.pilot.press("x")
        await confirmed(screen, "ridgeline shutdown-app numbers")
        await screen.until(lambda: screen.text("notice"), "the end")
        assert "stopped after" in screen.text("sentence")

    try:
        on_screen(handle.url, check, name="numbers", token=registry.find(handle.url).token)
    finally:
        handle.stop()
    assert handle.state == "STOPPED"
