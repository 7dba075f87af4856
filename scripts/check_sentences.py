"""No sentence of the prose has more than 25 words: for `make lint`.

Prose is what stands in the docstrings of `src` (those of attributes too) and in the Markdown pages. Tables,
headings, code blocks and doctests are not prose. An item of a list or of `Args:` begins a sentence. What
stands in backticks counts as one word, so does a row of numbers; a link counts as its text. A sentence ends
at a full stop, a question mark or an exclamation mark before an upper-case letter, a digit or a backtick.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

WORDS = 25
PAGES = ("README.md", "CONTRIBUTING.md")
FENCE = re.compile(r"\s*(```|~~~)")
NO_PROSE = re.compile(r"\s*(\||#{1,6} |<!--|>>> |\[[^\]]+\]: )")
SECTION = re.compile(r"(Args|Attributes|Examples?|Raises|Returns|Yields):")
ITEM = re.compile(r"^\s*([-*+]|\d+\.)\s+")
CODE = re.compile(r"(`+).+?\1", re.DOTALL)
NUMBERS = re.compile(r"\d[\d.]*(,\s+\d[\d.]*)+")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
END = re.compile(r"(?<=[.!?])[\"')*]*\s+(?=[\"'(*]*[A-Z0-9`])")


@dataclass(frozen=True)
class Line:
    """A line of prose: its number in the file, its depth of indentation, its text."""

    number: int
    depth: int
    text: str


def docstring_lines(tree: ast.AST) -> Iterator[list[Line]]:
    """The lines of each docstring of a module, of its classes, functions and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield without_doctests(lines_of(text, node.lineno))
            case _:
                pass


def lines_of(text: str, first: int) -> list[Line]:
    """The lines of a text that begins at line `first` of its file."""
    return [
        Line(number, len(line) - len(line.lstrip()), line.strip())
        for number, line in enumerate(text.split("\n"), first)
    ]


def without_doctests(lines: list[Line]) -> list[Line]:
    """The lines of a docstring; examples, up to the blank line that ends each, are blank."""
    kept, in_example = [], False
    for line in lines:
        in_example = line.text.startswith(">>>") or (in_example and line.text != "")
        kept.append(Line(line.number, line.depth, "") if in_example else line)
    return kept


def without_fences(lines: list[Line]) -> list[Line]:
    """The lines of a page; those of code blocks are blank."""
    kept, in_code = [], False
    for line in lines:
        fence = FENCE.match(line.text) is not None
        kept.append(Line(line.number, line.depth, "") if fence or in_code else line)
        in_code ^= fence
    return kept


def paragraphs(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """The lines between blank lines; items of a list and entries of sections such as `Args:` stand alone."""
    paragraph: list[Line] = []
    entries: int | None = None
    """The depth of a section's entries, within one; -1 before the first."""
    for line in lines:
        section = SECTION.fullmatch(line.text) is not None
        if entries == -1 and line.text:
            entries = line.depth
        starts_entry = entries is not None and line.depth <= entries
        if not line.text or NO_PROSE.match(line.text) or section or starts_entry or ITEM.match(line.text):
            if paragraph:
                yield paragraph
            paragraph = []
        if section:
            entries = -1
        elif not line.text and entries != -1:
            entries = None
        if line.text and not section and not NO_PROSE.match(line.text):
            paragraph.append(Line(line.number, line.depth, ITEM.sub("", line.text, count=1)))
    if paragraph:
        yield paragraph


def sentences(paragraph: list[Line]) -> Iterator[tuple[int, str]]:
    """The sentences of a paragraph, each with the number of its first line; code is `X` in them."""
    text = "\n".join(line.text for line in paragraph)
    text = CODE.sub(lambda code: "X" + "\n" * code[0].count("\n"), text)
    text = LINK.sub(lambda link: link[1] + "\n" * (link[0].count("\n") - link[1].count("\n")), text)
    start = 0
    for end in chain((match.end() for match in END.finditer(text)), (len(text),)):
        yield paragraph[text.count("\n", 0, start)].number, text[start:end]
        start = end


def word_count(sentence: str) -> int:
    """How many words a sentence has; dashes and arrows are none, a row of numbers is one."""
    return sum(any(map(str.isalnum, word)) for word in NUMBERS.sub("1", sentence).split())


def texts(path: Path) -> Iterator[list[Line]]:
    """The texts of a file: its docstrings, or the page itself."""
    if path.suffix == ".py":
        yield from docstring_lines(ast.parse(path.read_text()))
    else:
        yield without_fences(lines_of(path.read_text(), 1))


def long_sentences(path: Path) -> Iterator[str]:
    """A line for each sentence of a file that is too long."""
    for lines in texts(path):
        for paragraph in paragraphs(lines):
            for number, sentence in sentences(paragraph):
                if (count := word_count(sentence)) > WORDS:
                    opening = " ".join(sentence.split()[:6])
                    yield f"{path}:{number}: a sentence has {count} words (`{opening} ...`)"


def main() -> int:
    """Print the sentences that are too long; 1 if there is one."""
    sources = sorted(Path("src").rglob("*.py"))
    pages = sorted(chain(Path("docs").rglob("*.md"), map(Path, PAGES)))
    found = [line for path in (*pages, *sources) for line in long_sentences(path)]
    for line in found:
        print(f"{line}; split it so that none has more than {WORDS}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
