"""docs/cli.md says what the commands' help says."""

from support.scripts import script


def test_the_page_is_up_to_date():
    writes = script("write_cli_page")
    assert writes.PAGE.read_text() == writes.render(), "run `python scripts/write_cli_page.py`"
