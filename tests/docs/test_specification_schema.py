"""docs/specification.schema.json says what the models say."""

from support.scripts import script


def test_the_schema_is_up_to_date():
    writes = script("write_specification_schema")
    assert writes.FILE.read_text() == writes.render(), "run `python scripts/write_specification_schema.py`"
