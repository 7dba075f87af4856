"""Many windows on Spark: snapshots, purges, shuffle files, and operators that hear of commits."""

from pathlib import Path

import pytest

from ridgeline.testing import run_local
from support.engine.applications import Sum, payments_application, sum_application
from support.engine.on_spark import run_on_spark

pytestmark = [pytest.mark.spark, pytest.mark.slow]

WINDOWS = 40


def shuffle_files(folder):
    return [path for path in folder.rglob("shuffle_*") if path.is_file()]


def test_files_do_not_pile_up(spark_context, spark_folder, tmp_path, wait_until):
    checkpoint = tmp_path / "checkpoint"
    counts = []

    def count(run, summary):
        counts.append(
            {
                name: len(list((checkpoint / name).glob("*")))  # a folder may not be there yet
                for name in ("journal", "state", "plans", "epochs")
            }
        )

    wait_until(lambda: not shuffle_files(spark_folder), "the files of shuffles of earlier tests to go")
    here = run_local(payments_application(count=20 * WINDOWS, per_window=20))
    run = run_on_spark(
        payments_application(count=20 * WINDOWS, per_window=20), spark_context, checkpoint, each=count
    )

    assert len(run.ids) == WINDOWS
    for name in ("balance_store", "top_store", "rejected_store"):
        assert run.collected(name) == here.collected(name)
    # Deltas are in the journal; for the oldest of twelve windows what was merged.
    assert max(count["journal"] for count in counts) <= 6
    assert max(count["state"] for count in counts) <= 12 * len(run.plan.execution.containers)
    assert counts[-1]["epochs"] == 1
    assert counts[-1]["plans"] <= len(run.plan.execution.containers) + 1  # slots, and the compactor
    wait_until(lambda: not shuffle_files(spark_folder), "the files of shuffles to go")


SUMS = [sum(range(10 * window + 10)) for window in range(5)]


class Listening(Sum):
    """Writes down the windows that `committed` is called for, and its state then."""

    folder: str = ""

    def committed(self, window_id):
        Path(self.folder, f"{window_id}").write_text(str(self.total))


def test_commit_is_reported_again_after_a_restart(spark_context, tmp_path):
    """Between the commit and the call there may have been a crash."""
    folder = tmp_path / "heard"
    folder.mkdir()
    app = sum_application(Listening(folder=str(folder)), count=50)
    run_on_spark(app, spark_context, tmp_path / "checkpoint", windows=3)
    (folder / "2").unlink()

    run_on_spark(app, spark_context, tmp_path / "checkpoint", windows=1)

    assert {2, 3} <= {int(path.name) for path in folder.iterdir()}
    assert (folder / "2").read_text() == str(SUMS[2])
