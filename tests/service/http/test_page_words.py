"""The words that the page writes by itself: those of the terminal."""

import re
from pathlib import Path

from ridgeline.measure.wording.times import STEPS
from ridgeline.service import page

WORDS = Path(page.__file__).parent / "assets" / "time" / "words.js"


def test_what_a_window_waited_for_has_the_same_names_as_in_the_terminal():
    table = WORDS.read_text(encoding="utf-8").partition("export const WORDS = {\n")[2].partition("\n};")[0]
    assert dict(re.fullmatch(r'  (\w+): "(.+)",', line).groups() for line in table.splitlines()) == STEPS
