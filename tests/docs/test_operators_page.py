"""docs/operators.md says what the code says."""

import importlib.util

import pytest

from support.paths import ROOT

SCRIPT = ROOT / "scripts" / "write_operators_page.py"


@pytest.mark.guide("004", "Apache Apex Malhar Library Templates")
def test_the_page_is_up_to_date():
    spec = importlib.util.spec_from_file_location("write_operators_page", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text() == script.render(), "run `python scripts/write_operators_page.py`"
