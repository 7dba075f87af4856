"""docs/specification.schema.json says what the models say."""

import importlib.util

from support.paths import ROOT

SCRIPT = ROOT / "scripts" / "write_specification_schema.py"


def test_the_schema_is_up_to_date():
    spec = importlib.util.spec_from_file_location("write_specification_schema", SCRIPT)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.FILE.read_text() == script.render(), "run `python scripts/write_specification_schema.py`"
