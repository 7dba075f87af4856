"""docs/metrics.md and the Grafana dashboard say what the registry says."""

import importlib.util

import pytest

from support.paths import ROOT

SCRIPT = ROOT / "scripts" / "write_metrics_page.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("write_metrics_page", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_the_page_is_up_to_date(script):
    assert script.PAGE.read_text() == script.render(), "run `python scripts/write_metrics_page.py`"


def test_the_dashboard_is_up_to_date(script):
    assert script.DASHBOARD.read_text() == script.render_dashboard(), (
        "run `python scripts/write_metrics_page.py`"
    )
