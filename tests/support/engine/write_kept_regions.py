"""Writes the kept checkpoint of an application with regions, and its exported states.

`PYTHONPATH=tests python -m support.engine.write_kept_regions` was run with the version that the archive's
name says. Run it for a new format, and keep the archives before.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from ridgeline import Application
from ridgeline.engine.driver.checkpoint.upkeep.exporting import export_states
from ridgeline.testing import CollectorSink, run_local
from support.rewound import Count, Numbers, Totals

STOPPED_AFTER = 5


def application() -> Application:
    """Two regions: numbers, and their sums by key."""
    made = Application("kept")
    numbers = made.add_operator("numbers", Numbers())
    totals = made.add_operator("totals", Totals())
    sink = made.add_operator("sink", CollectorSink(Count))
    made.add_stream("numbers", numbers.numbers, totals.numbers, decoupled={totals.numbers})
    made.add_stream("totals", totals.totals, sink.input)
    return made


def main() -> None:
    """Write the archive beside this file."""
    archive = Path(__file__).parent / f"kept-regions-{version('ridgeline')}.tar.xz"
    with tempfile.TemporaryDirectory() as folder:
        state, rows = Path(folder, "state"), Path(folder, "rows")
        run_local(application(), windows=STOPPED_AFTER, checkpoint=state)
        export_states(str(state), rows)
        with tarfile.open(archive, "w:xz") as tar:
            tar.add(state, "state")
            tar.add(rows, "rows")
    sys.stdout.write(f"{archive}: {archive.stat().st_size:,} bytes\n")


if __name__ == "__main__":
    main()
