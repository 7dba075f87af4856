"""README and docs: links lead somewhere, commands and options exist, and blocks can be tested."""

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


def anchor_of(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
