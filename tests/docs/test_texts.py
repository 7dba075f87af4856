"""README and docs: links, files, commands, options and messages in them exist; blocks can be tested."""

import ast
import re
import shlex

import pytest
import typer.main

from ridgeline.cli.main import app
from support.docs.pages import blocks
from support.paths import ROOT

pytestmark = pytest.mark.lint
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
TROUBLES = ROOT / "docs" / "guide" / "troubleshooting.md"
HOMES = (ROOT / "src" / "ridgeline", ROOT / "src" / "ridgeline" / "engine", ROOT / "src", ROOT, ROOT / "docs")
OTHERS = {"journal/", "committed/", "plans/", "spark/offsets/"}
"""Folders of a checkpoint."""
BLOCKS = {page: blocks(page) for page in PAGES}
LANGUAGES = {"python", "console", "text", "mermaid", "json", "properties", "toml", "yaml"}
OWN = {"--help", "--output", "--numbers"}  # options of the applications in these pages
_GROUP = typer.main.get_command(app)
COMMANDS = {name: _GROUP.get_command(None, name) for name in _GROUP.list_commands(None)}


def test_every_block_of_the_guide_can_be_tested():
    for block in (block for page in PAGES if "guide" in page.parts for block in BLOCKS[page]):
        assert block.language in LANGUAGES, block
        if block.language not in {"python", "console", "mermaid"}:
            assert {"file", "output"} & set(block.marks), block
        if block.needs == "cluster":
            assert block.language == "console", block


def test_python_parses():
    for page in PAGES:
        for block in BLOCKS[page]:
            if block.language == "python":
                ast.parse(block.text, str(block))


def command_lines():
    for page in PAGES:
        for block in BLOCKS[page]:
            for line in block.text.replace("\\\n", " ").splitlines():
                found = re.search(r"(?:^|\$ |&& )((?:\S+=\S+ )*\S*ridgeline (\S+).*)$", line)
                if found and block.language in {"", "console"} and found[2] in COMMANDS:
                    yield str(block), found[2], found[1]


def test_commands_and_options_exist():
    for where, command, line in command_lines():
        words = shlex.split(line.split(" | ")[0].split(" #")[0].split(" && ")[0])
        named = COMMANDS[command]
        if hasattr(named, "commands"):  # such as `checkpoint copy`
            named = named.commands[words[words.index(command) + 1]]
        known = {option for parameter in named.params for option in parameter.opts}
        given = {word.partition("=")[0] for word in words if word.startswith("-") and word != "--"}
        assert given <= known | OWN, f"{where}: {line}"


def test_relative_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", without_code(page.read_text())):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def without_code(text):
    return re.sub(r"`[^`]*`", "", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def test_named_files_exist():
    missing = [
        f"{page.name}: {name}"
        for page in PAGES
        for name in re.findall(r"`((?:[\w.]+/)+(?:[\w*]+\.(?:py|md|toml|lock))?)`", page.read_text())
        if name not in OTHERS and not any(list(home.glob(name.rstrip("/"))) for home in HOMES)
    ]
    assert not missing


@pytest.mark.parametrize(("title", "most"), [("The walk through a window", 20), ("The walk of a metric", 14)])
def test_walks_are_short_and_never_go_back(title, most):
    section = ARCHITECTURE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d+\. `([\w/]+\.py)`: ", section, re.MULTILINE)
    assert 5 < len(steps) <= most
    assert len(set(steps)) == len(steps)
    assert section.count("\n1. ") == 1
    assert len(steps) == len(re.findall(r"^\d+\. ", section, re.MULTILINE))


def test_prose_is_within_the_line():
    for page in (*PAGES, ROOT / "CHANGELOG.md", ROOT / "Makefile"):
        if page.name not in {"cli.md", "metrics.md", "operators.md"}:  # made from texts of the code
            code = False
            for number, line in enumerate(page.read_text().splitlines(), 1):
                code ^= line.startswith("```")
                assert len(line) <= 110 or code or line.startswith("|"), f"{page.name}:{number}"


def pieces():
    for line in TROUBLES.read_text().splitlines():
        if line.startswith("| `") and " | " in line:
            for message in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                for piece in re.split(r"\.\.\.|[;:,] ", message):
                    if len(words := piece.strip(" :;,.()")) > 8:
                        yield words


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
