"""Pages that are made from the code say what it says, and public classes have examples that run."""

import inspect

import pytest

import ridgeline.api
import ridgeline.connect
import ridgeline.operators
import ridgeline.testing
from support.paths import ROOT
from support.scripts import script

pytestmark = pytest.mark.lint
PACKAGES = [ridgeline.api, ridgeline.connect, ridgeline.operators, ridgeline.testing]
PUBLIC = {
    f"{package.__name__}.{name}": value
    for package in PACKAGES
    for name in package.__all__
    if inspect.isclass(value := getattr(package, name)) or inspect.isfunction(value)
}
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


@pytest.mark.guide("004", "Examples")
def test_all_have_an_example():
    without = [name for name, value in PUBLIC.items() if ">>> " not in (value.__doc__ or "")]
    assert not without, "add one under `Example:` to the docstring"
