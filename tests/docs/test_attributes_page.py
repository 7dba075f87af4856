"""docs/attributes.md says what the code says."""

import importlib.util

from support.paths import ROOT

SCRIPT = ROOT / "scripts" / "write_attributes_page.py"


def test_the_page_is_up_to_date():
    spec = importlib.util.spec_from_file_location("write_attributes_page", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text() == script.render(), "run `python scripts/write_attributes_page.py`"
