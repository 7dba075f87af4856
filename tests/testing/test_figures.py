"""What a run in process says about its time, on clocks that operators themselves move."""

import pytest

from ridgeline import Application, RidgelineError
from ridgeline.measure.measurement import Measurement
from ridgeline.testing import run_local
from support.testing.diamond import A, Busy, diamond


def test_a_run_that_fails_says_so():
    class Fails(Busy):
        def end_window(self) -> None:
            raise RidgelineError("no")

    app = Application("fails")
    source = app.add_operator("A", A())
    app.add_stream("a", source.out, app.add_operator("fails", Fails(), recovery_attempts=0).data)
    seen = []
    original = Measurement.apply
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Measurement, "apply", lambda self, event: (seen.append(event), original(self, event)))
        with pytest.raises(RidgelineError):
            run_local(app)

    assert seen[-1].outcome == "failed"
    assert "operator `fails` (partition 0)" in seen[-1].reason


def test_tables_of_unknown_operators_and_windows():
    run = run_local(diamond(), windows=2)

    with pytest.raises(KeyError, match="`X` is not an operator of this application; known are `A`, `B`, `C`"):
        run.record_age("X")
    with pytest.raises(KeyError, match="window 7 is not known; kept are 0 to 1"):
        run.latency(7)
    assert run.record_age("B").num_rows == 0
    assert run.progress().num_rows >= 0
    assert run.windows(1)["window_id"].to_pylist() == [1]
