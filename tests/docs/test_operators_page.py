"""docs/operators.md says what the code says."""

import pytest

from support.scripts import script


@pytest.mark.guide("004", "Apache Apex Malhar Library Templates")
def test_the_page_is_up_to_date():
    writes = script("write_operators_page")
    assert writes.PAGE.read_text() == writes.render(), "run `python scripts/write_operators_page.py`"
