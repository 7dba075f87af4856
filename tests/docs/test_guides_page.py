"""docs/guides.md says of each heading of the guides what works, and which tests show it."""

import tomllib

import pytest

from support import scripts

pytestmark = pytest.mark.lint


@pytest.fixture(scope="module")
def script():
    return scripts.script("write_guides_page")


def test_what_works_has_a_test_or_a_page(script):
    headings = tomllib.loads(script.HEADINGS.read_text())
    marks = script.marks_of_tests()
    for number, (key, _) in script.GUIDES.items():
        for row in headings[key]:
            shown = (number, row["heading"]) in marks or ".md" in row.get("here", "")
            assert shown or "here" not in row, f"{number}: {row['heading']}"
