"""`deactivate` and `teardown` in Spark's workers: at the end of a run, however it ends."""

import os
from pathlib import Path

import pytest

from ridgeline.api.errors import OperatorError
from ridgeline.measure.events import StateWarning
from support.engine.applications import FailingSum, InputPort, Number, OutputPort, sum_application
from support.engine.on_spark import run_on_spark

pytestmark = pytest.mark.spark


class Noting(FailingSum):
    """Notes in `notes` what is called in which process; its `teardown` fails if it is to."""

    notes: str
    fails: bool = False

    numbers = InputPort(Number)
    numbers.process(FailingSum.add_or_fail)
    sums = OutputPort(Number)

    def note(self, what):
        Path(self.notes, f"{what}-{self.context.partition}-{os.getpid()}").touch()

    def setup(self, context):
        self.note("setup")

    def deactivate(self):
        self.note("deactivate")

    def teardown(self):
        self.note("teardown")
        if self.fails:
            raise OSError("cannot let go")


def noted(folder, what):
    return {note.name.partition("-")[2] for note in folder.glob(f"{what}-*")}


@pytest.mark.guide("004", "Interface - Component")
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("bad", [-1, 47])
def test_every_operator_that_was_set_up_is_torn_down_in_its_process(spark_context, tmp_path, fails, bad):
    folder = tmp_path / "folder"
    folder.mkdir()
    app = sum_application(Noting(notes=str(folder), fails=fails, bad=bad), partitions=2)

    run = run_on_spark(
        app,
        spark_context,
        tmp_path / "checkpoint",
        attributes={"total.partitions": "2"},
        expect=OperatorError if bad >= 0 else None,
    )

    run = run[0] if bad >= 0 else run
    set_up = noted(folder, "setup")
    assert set_up
    assert noted(folder, "deactivate") == noted(folder, "teardown") == set_up
    warnings = [event.text for event in run.of_type(StateWarning)]
    reported = {
        f"operator `total` (partition {number}): `teardown` failed: OSError: cannot let go; no result is lost"
        for number in (0, 1)
    }
    assert set(warnings) == (reported if fails else set())
