"""The errors that docs/guide/troubleshooting.md lists are those that the code prints."""

import re

import pytest

from support.paths import ROOT

PAGE = ROOT / "docs" / "guide" / "troubleshooting.md"


def pieces():
    for line in PAGE.read_text().splitlines():
        if line.startswith("| `") and " | " in line:
            for message in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                for piece in re.split(r"\.\.\.|[;:,] ", message):
                    if len(words := piece.strip(" :;,.()")) > 8:
                        yield words


pytestmark = pytest.mark.lint


def source():
    files = (ROOT / "src").glob("**/*.py")
    text = "\n".join(file.read_text() for file in files)
    text = re.sub(r'"\n\s*f?"', "", text)  # strings that go on in the next line
    return squeezed(re.sub(r"\{[^{}]*\}", " ", text))


def squeezed(text):
    return re.sub(r"\s+", " ", text).strip()


def test_messages_of_the_page_are_in_the_code():
    text = source()
    assert [piece for piece in pieces() if squeezed(piece.replace("17", "")) not in text] == []
