"""docs/metrics.md and the Grafana dashboard say what the registry says."""

import pytest

from support import scripts


@pytest.fixture(scope="module")
def script():
    return scripts.script("write_metrics_page")


def test_the_page_is_up_to_date(script):
    assert script.PAGE.read_text() == script.render(), "run `python scripts/write_metrics_page.py`"


def test_the_dashboard_is_up_to_date(script):
    assert script.DASHBOARD.read_text() == script.render_dashboard(), (
        "run `python scripts/write_metrics_page.py`"
    )
