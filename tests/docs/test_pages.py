"""Pages that are made from the code say what it says."""

import pytest

from support.paths import ROOT
from support.scripts import script

pytestmark = pytest.mark.lint
SCRIPTS = [path.stem for path in sorted((ROOT / "scripts").glob("write_*.py"))]


@pytest.mark.guide("004", "Apache Apex Malhar Library Templates")
def test_pages_are_up_to_date():
    made = {name: script(name) for name in SCRIPTS}
    old = [name for name, writes in made.items() if writes.PAGE.read_text() != writes.render()]
    assert not old, f"run {[f'python scripts/{name}.py' for name in old]}"


def test_the_dashboard_is_up_to_date():
    writes = script("write_metrics_page")
    assert writes.DASHBOARD.read_text() == writes.render_dashboard(), (
        "run `python scripts/write_metrics_page.py`"
    )
