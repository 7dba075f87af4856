"""The page on services does what it says."""

import pytest

from ridgeline.testing import services
from support.docs import pages
from support.paths import ROOT

PAGE = ROOT / "docs" / "services.md"


@pytest.mark.crash
def test_the_blocks_run(tmp_path, monkeypatch):
    if reason := services.postgres.available():
        pytest.skip(reason)
    monkeypatch.chdir(tmp_path)
    pages.run(PAGE, having={"services"})


def test_it_has_all_services():
    rows = [line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert rows[: len(services.SERVICES)] == list(services.SERVICES)
