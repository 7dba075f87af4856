"""The blocks of a page of docs, and how they are run: in order, in one namespace, in the working folder.

A comment before a block says what it needs (`<!-- needs: spark -->`, `kafka`, `services`, `mypy`,
`cluster`), which file it is (`<!-- file: app.py -->`), that it is what the Python block before it prints
(`<!-- output -->`), or with which code its command ends (`<!-- exit: 2 -->`). `python -m
support.docs.pages PAGE` runs a page in a process of its own.
"""

import contextlib
import io
import os
import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner

from ridgeline.cli.main import app
from support.accounts.reports import finished

_FENCE = re.compile(r"((?:^<!-- [^\n]* -->\n)*)^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MARK = re.compile(r"<!-- (\w+)(?:: (.*?))? -->")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    marks: dict = field(default_factory=dict)

    @property
    def needs(self):
        return self.marks.get("needs")

    @property
    def commands(self):
        """The command lines of a console block, each with what is printed after it."""
        joined = self.text.replace("\\\n", " ")
        parts = re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]
        return [(part.partition("\n")[0].split("  #")[0].strip(), part.partition("\n")[2]) for part in parts]

    def __str__(self):
        return f"{self.page.name}:{self.line}"


STARTS_NOTHING = frozenset({"plan", "validate"})
"""Commands that can be called in this process: to start one takes longer than all they do."""
LAST = []
"""The names of the page that ran last, for who finds its classes as those of a module."""


def blocks(page):
    text = page.read_text()
    return [
        Block(
            page,
            text.count("\n", 0, found.start(2)) + 1,
            found[2],
            found[3],
            {name: value or True for name, value in _MARK.findall(found[1])},
        )
        for found in _FENCE.finditer(text)
    ]


def run(page, *, having=(), replaced=(), called=frozenset(), commands=True):
    """Run the blocks of a page that need only what there is. `replaced`: (old, new) in commands and files.

    `called`: commands of `ridgeline` that get no process of their own; `commands`: whether to run any.
    """
    chosen = [block for block in blocks(page) if not block.needs or block.needs in having]
    with _forgetting():
        _run([block for block in chosen if commands or block.language != "console"], replaced, called)


@contextlib.contextmanager
def _forgetting():
    """Import from the working folder too, and forget at the end what came from there."""
    here, before, path = str(Path.cwd()), dict(sys.modules), list(sys.path)
    sys.path.insert(0, here)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in [name for name, module in sys.modules.items() if _is_of(here, module)]:
            del sys.modules[name]
        sys.modules.update({name: module for name, module in before.items() if _is_of(here, module)})


def _is_of(folder, module):
    return str(getattr(module, "__file__", "")).startswith(folder)


def _run(chosen, replaced, called):
    namespace = {"__name__": "block"}
    LAST[:] = [namespace]
    printed = ""
    for block in chosen:
        if name := block.marks.get("file"):
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(_replaced(block.text, replaced))
        if block.language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile("\n" * block.line + block.text, str(block.page), "exec"), namespace)
            printed = out.getvalue()
        elif "output" in block.marks:
            compare(block, block.text, printed)
        elif block.language == "console":
            for command, expected in block.commands:
                compare(block, expected, _printed(block, _replaced(command, replaced), called))


def _replaced(text, pairs):
    for old, new in pairs:
        text = text.replace(old, new)
    return text


def _printed(block, command, called):
    words = shlex.split(command)
    if words[0] == "ridgeline" and words[1] in called:
        code, printed = _called(words[1:])
    else:
        code, printed = _started(words)
    expected = int(block.marks.get("exit", 0))
    assert code == expected, f"{block}: {command}: {code}\n{printed}"
    return printed


def _called(words):
    """As its own process would, it finds no module of the page's blocks imported."""
    here = str(Path.cwd())
    with _forgetting():
        for name in [name for name, module in sys.modules.items() if _is_of(here, module)]:
            del sys.modules[name]
        ran = CliRunner().invoke(app, words, env={"COLUMNS": "100"})
    return ran.exit_code, ran.stdout + ran.stderr


def _started(words):
    programs = {
        "ridgeline": [sys.executable, "-m", "ridgeline"],
        "pytest": [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        "mypy": [sys.executable, "-m", "mypy"],
    }
    ran = finished(
        [*programs[words[0]], *words[1:]],
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "100"},
    )
    return ran.returncode, ran.stdout + ran.stderr


def compare(block, expected, printed):
    """The lines of a block must be printed, in this order; `...` stands for anything."""
    pattern = r"(?s).*".join(
        "[^\n]*".join(re.escape(part) for part in line.split("...")) if line.strip() != "..." else ""
        for line in map(str.strip, expected.strip().splitlines())
    )
    squeezed = "\n".join(line.strip() for line in printed.splitlines())
    assert re.search(pattern.replace("(?s)", ""), squeezed, re.DOTALL), f"{block}\n{expected}\n---\n{printed}"


if __name__ == "__main__":
    run(Path(sys.argv[1]), having=sys.argv[2:])
