"""What an application window has changed, where windows are in flight and the last ones begin again."""

from __future__ import annotations

from pathlib import Path

import pytest

from ridgeline.testing import run_local
from support.counted import application, expected


@pytest.mark.parametrize("partitions", [2, 3])
@pytest.mark.parametrize("seed", [5, 6, 7])
def test_containers_that_have_run_ahead_go_back_into_an_application_window(
    tmp_path: Path, partitions: int, seed: int
) -> None:
    """Its end is cut off by the end of the inputs, when windows after it have begun already."""
    run = run_local(application(6, None, partitions), checkpoint=tmp_path, interleave=seed)
    for name, wanted in expected(6, None, partitions).items():
        assert [sorted(map(tuple, run.collected(f"{name}_sink", one))) for one in run.window_ids] == wanted
