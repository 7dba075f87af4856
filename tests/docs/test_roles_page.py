"""docs/roles.md says what the code says."""

from support.scripts import script


def test_the_page_is_up_to_date():
    writes = script("write_roles_page")
    assert writes.PAGE.read_text() == writes.render(), "run `python scripts/write_roles_page.py`"
