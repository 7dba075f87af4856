"""Lists of operators and windows."""

import pytest

from ridgeline.cli.views.lists import info_lines, operators_list, windows_table
from support.cli import overviews
from support.measure import changing
from support.measure.story import measured, windows

pytestmark = pytest.mark.usefixtures("utc")


def drawn(*parts, width=160):
    return overviews.drawn(*parts, width=width)


def test_what_sliders_hold_is_a_column_where_any_holds_something():
    rows = measured(*windows(3)).operators(3.0)
    assert "held" not in drawn(operators_list(rows, 160))[0].split()
    rows[1]["heldBytes"] = 4_000_000
    lines = drawn(operators_list(rows, 160))
    assert lines[0].split()[-1] == "held"
    assert [line.split("  ")[-1].strip() for line in lines[1:]] == ["0 B", "3.8 MiB", "0 B"]
    assert "held" not in drawn(operators_list(rows, 60), width=60)[0].split()


def test_windows_name_their_plan_where_it_has_changed():
    measurement = measured()
    for event in changing.run():
        measurement.apply(event)
    of_all = drawn(windows_table(measurement.windows(), 160))
    assert of_all[0].split()[-1] == "plan"
    assert [line.split()[-1] for line in of_all[1:]] == ["1"] * 4 + ["2"] * 4 + ["3"] * 4
    assert "plan" not in drawn(windows_table(measurement.windows(4), 160))[0].split()
    assert "  plan        version 3" in drawn(*info_lines(measurement.info(12.0), 160))
