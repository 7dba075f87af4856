"""The applications in the guide's blocks go on after a restart, wherever they are stopped."""

import sys
from types import SimpleNamespace

import pytest

import ridgeline.testing
from support.docs import pages
from support.paths import ROOT

GUIDE = sorted((ROOT / "docs" / "guide").glob("*.md"))
BLOCKS = {page: pages.blocks(page) for page in GUIDE}
LOCAL = [
    page
    for page in GUIDE
    if any(block.language == "python" and "run_local(" in block.text for block in BLOCKS[page])
]
ELSEWHERE = {"checkpoint", "faults", "capture", "from_window", "changes"}
"""Options of runs that are not restarted here: they are about a checkpoint, or about one run."""
SHOWN_ONCE = ("ExpectedSink", "FailOn")


def restarted(application, folder, options):
    """Run an application window by window, each in a run of its own, then to its end."""
    for _ in range(3):
        if not ridgeline.testing.run_local(application, windows=1, checkpoint=folder, **options).window_ids:
            return
    if options.get("inputs") is not None or ends(application):
        ridgeline.testing.run_local(application, checkpoint=folder, **options)


def ends(application):
    """Whether its inputs come to an end."""
    kinds = {type(logical.operator).__name__ for logical in application.operators}
    return "ListInput" in kinds


@pytest.mark.parametrize("page", LOCAL, ids=lambda page: page.stem)
def test_the_applications_of_a_page_go_on_after_restarts(page, tmp_path, monkeypatch):
    (tmp_path / "page").mkdir()
    monkeypatch.chdir(tmp_path / "page")
    ran = []
    run_local = ridgeline.testing.run_local

    def remembered(application, **options):
        result = run_local(application, **options)
        if not ELSEWHERE & options.keys():
            ran.append((application, {name: value for name, value in options.items() if name != "windows"}))
        return result

    monkeypatch.setattr(ridgeline.testing, "run_local", remembered)
    pages.run(page, commands=False)  # they run in other processes, where nothing is remembered
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path / "page")
    monkeypatch.setitem(sys.modules, "block", SimpleNamespace(**pages.LAST[0]))
    assert ran
    for number, (application, options) in enumerate(ran):
        names = {type(logical.operator).__name__ for logical in application.operators}
        if not names & set(SHOWN_ONCE):
            restarted(application, tmp_path / str(number), options)
