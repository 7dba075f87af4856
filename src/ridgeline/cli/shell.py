"""`ridgeline shell`: all commands in one session, with aliases and macros."""

from __future__ import annotations

import contextlib
import io
import os
import re
import readline
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from ridgeline.api.errors import RidgelineError, nearest
from ridgeline.cli.errors import CommandError, exit_code, make_console, print_error
from ridgeline.cli.other_names import OTHER_NAMES
from ridgeline.cli.output import write
from ridgeline.cli.remote import shared

_APPLICATIONS = ("target", "a")
"""Arguments that name an application whose code is loaded. A process loads a module once only."""
_READS_LINES = "change"
_ARGUMENT = re.compile(r"\$([1-9])")
_DEEPEST = 20
"""Macros and files that call each other."""


def shell(context: typer.Context) -> None:
    """Type commands without `ridgeline` before them.

    With history, completion by Tab, aliases and macros. `connect APP` gives the application to all commands
    that follow. `source FILE` carries out the lines of a file, and `help` lists what the shell has of its
    own. Lines that come from a file or a pipe end at the first command that fails, with its exit code.

    Example: `ridgeline shell`

    Exit codes: 0 done, that of the first command that failed where lines are not typed.
    """
    session = Shell(context.find_root().command)
    if not sys.stdin.isatty():
        raise typer.Exit(session.script("standard input", sys.stdin.read().splitlines()))
    home = Path(os.environ.get("RIDGELINE_HOME") or "~/.ridgeline").expanduser()
    with _history(home / "shell_history"):
        readline.set_completer(session.completed)
        readline.set_completer_delims(" \t\n;")
        readline.parse_and_bind("tab: complete")
        session.run()


class Shell:
    """Carries out lines: commands of `ridgeline`, and the shell's own."""

    def __init__(self, group: Any) -> None:
        """`group`: the commands of `ridgeline`."""
        self.group = group
        self.app: str | None = None
        """The application that commands are about."""
        self.aliases: dict[str, list[str]] = {}
        self.macros: dict[str, list[str]] = {}
        self.own: Mapping[str, tuple[str, Callable[[list[str]], int | None]]] = {
            "connect": ("APP", self._connect),
            "disconnect": ("", self._disconnect),
            "alias": ("[NAME COMMAND...]", self._alias),
            "begin-macro": ("NAME", self._macro),
            "source": ("FILE", self._source),
            "echo": ("[TEXT...]", self._echo),
            "set-pager": ("on|off", self._set_pager),
            "help": ("[COMMAND]", self._help),
            "exit": ("", self._exit),
        }
        """The commands of the shell: the words that each takes, and what it does."""
        self._paged = False
        self._scripts: list[Iterator[str]] = []

    # Lines --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Carry out what is typed, until its end or `exit`; an error ends nothing."""
        while True:
            try:
                if (line := self._next_line(f"{self.app or 'ridgeline'}> ")) is None:
                    return
                self.carry_out(line)
            except KeyboardInterrupt:  # it ends the command, not the shell
                write("")

    def script(self, name: str, lines: Sequence[str]) -> int:
        """Carry out lines up to the first one that fails, and say which; its exit code, else 0."""
        if len(self._scripts) >= _DEEPEST:
            raise CommandError(f"`{name}` is called by what it calls, {_DEEPEST} deep; end the circle")
        rest = iter(lines)
        self._scripts.append(rest)
        try:
            for line in rest:
                if code := self.carry_out(line):
                    print_error(CommandError(f"{name} has ended at `{line.strip()}`"), make_console())
                    return code
        finally:
            self._scripts.pop()
        return 0

    def lines(self, prompt: str) -> Iterator[str]:
        """The lines that follow, for a command that reads some itself."""
        while (line := self._next_line(prompt)) is not None:
            yield line

    @property
    def scripted(self) -> bool:
        """Whether lines are of a file or macro: a wrong one ends it."""
        return bool(self._scripts)

    def carry_out(self, line: str) -> int:
        """Carry out all commands of a line; the exit code of the first that fails. Raises typer.Exit."""
        try:
            for words in commands_of(line):
                if code := self._one(words):
                    return code
        except RidgelineError as error:
            print_error(error, make_console())
            return exit_code(error)
        return 0

    def _next_line(self, prompt: str) -> str | None:
        """The next line: of the script that runs, else as typed. None at its end."""
        if self._scripts:
            return next(self._scripts[-1], None)
        with contextlib.suppress(EOFError):
            return input(prompt)
        return None

    # Commands -----------------------------------------------------------------------------------------------

    def _one(self, words: list[str]) -> int:
        """Carry out one command; its exit code. Raises RidgelineError, typer.Exit."""
        words = self._with_alias(words)
        name, *given = words
        if name in self.macros:
            return self.script(name, [filled(line, given) for line in self.macros[name]])
        if name in self.own:
            takes, do = self.own[name]
            count = len(takes.split())
            if "[" not in takes and len(given) != count:
                raise CommandError(
                    f"`{name}` takes {f'`{takes}`' if takes else 'nothing'}; got {len(given)} words"
                )
            return do(given) or 0
        command = self._command(name)
        words = self.with_app(words)
        if name == _READS_LINES:
            return self._here(words)
        if self._paged:
            return _through_pager(words)
        loads = name == "doctor" or any(one.name in _APPLICATIONS for one in command.params)
        return _in_own_process(words) if loads else self._here(words)

    def _with_alias(self, words: list[str]) -> list[str]:
        """The words, with the first one replaced if it is an alias."""
        meant = self.aliases.get(words[0]) or OTHER_NAMES.get(words[0], words[:1])
        return [*meant, *words[1:]]

    def _command(self, name: str) -> Any:
        """The command of `ridgeline` of that name. Raises CommandError."""
        command = self.group.get_command(None, name)
        if command is None:
            close = nearest(name, self._names())
            remedy = "`help` lists all" if close is None else f"did you mean `{close}`?"
            raise CommandError(f"there is no command `{name}`; {remedy}")
        return command

    def _names(self) -> set[str]:
        """All that a line may begin with."""
        return {*self.group.list_commands(None), *OTHER_NAMES, *self.own, *self.aliases, *self.macros}

    def with_app(self, words: list[str]) -> list[str]:
        """The words, with the application of `connect` where the command takes one and none is named.

        It is named where there are as many words as the command takes: an operator may be called as an
        application.
        """
        command, names = self._command(words[0]), 1
        if words[1:2] and words[1] in getattr(command, "commands", {}):
            command, names = command.commands[words[1]], 2
        if self.app is None or not command.params or command.params[0].name != "app":
            return words
        given = command.make_context(words[0], words[names:], resilient_parsing=True).params
        *_, last = (one.name for one in command.params if one.param_type_name == "argument")
        return words if given[last] else [*words[:names], self.app, *words[names:]]

    def _here(self, words: Sequence[str], **settings: Any) -> int:
        """Carry out a command of `ridgeline` in this process; its exit code."""
        try:
            self.group.main(args=list(words), prog_name="ridgeline", obj=self, **settings)
        except SystemExit as error:
            return error.code if isinstance(error.code, int) else int(error.code is not None)
        return 0

    # Commands of the shell: the first line of each is its help ----------------------------------------------

    def _connect(self, given: list[str]) -> None:
        """Give APP to all commands about a running application; it is asked once, to know the name."""
        info = shared.connect(given[0], os.environ.get("RIDGELINE_TOKEN")).get("/info")
        self.app = given[0]
        write(f"{info['name']}: {info['id']}")

    def _disconnect(self, _given: list[str]) -> None:
        """Name the application in each command again."""
        self.app = None

    def _alias(self, given: list[str]) -> None:
        """Call a command by another name; without words: list them."""
        if not given:
            write("\n".join(f"{name}  {shlex.join(words)}" for name, words in self.aliases.items()))
            return
        name, *rest = given
        commands = commands_of(rest[0]) if len(rest) == 1 else [rest]  # in quotes, or not
        if len(commands) != 1 or not commands[0]:
            raise CommandError(
                f"`alias {name}` wants one command: `alias {name} critical-path`, or make a macro of several"
            )
        self.aliases[self._free(name)] = self._with_alias(commands[0])

    def _macro(self, given: list[str]) -> None:
        """Put the lines up to `end` under a name; `$1` to `$9` are the words behind it."""
        name = self._free(given[0])
        lines: list[str] = []
        for line in self.lines(f"{given[0]}> "):
            if line.strip() == "end":
                self.macros[name] = lines
                return
            lines.append(line)
        raise CommandError(f"the macro `{name}` has no line `end`: add it")

    def _free(self, name: str) -> str:
        """A name that is not the shell's own. Raises CommandError."""
        if name in self.own:
            raise CommandError(f"`{name}` is a command of the shell; give another name")
        return name

    def _source(self, given: list[str]) -> int:
        """Carry out the lines of a file."""
        try:
            lines = Path(given[0]).expanduser().read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            raise CommandError(f"`{given[0]}` cannot be read: {error.strerror}; give a file") from None
        return self.script(given[0], lines)

    def _echo(self, given: list[str]) -> None:
        """Print a text."""
        write(" ".join(given))

    def _set_pager(self, given: list[str]) -> None:
        """Show answers by `$PAGER`, else `less`, from now on, or no more."""
        self._paged = given[0].lower() == "on"

    def _help(self, given: list[str]) -> int:
        """Describe a command, or list all."""
        name = self._with_alias(given)[0] if given else ""
        if name in self.macros:
            write("\n".join(self.macros[name]))
            return 0
        if given and name not in self.own:
            self._command(name)
            return self._here([name, "--help"])
        for own, (takes, do) in self.own.items():
            if name in {"", own}:
                write(f"{f'{own} {takes}':34} {(do.__doc__ or '').splitlines()[0]}")
        return 0 if given else self._here(["--help"])

    def _exit(self, _given: list[str]) -> None:
        """Leave; so does Ctrl-D."""
        raise typer.Exit

    # Completion ---------------------------------------------------------------------------------------------

    def completed(self, word: str, number: int) -> str | None:
        """What `word` can become, the one of that number: readline asks until there is none."""
        if number == 0:
            self._found = self._completions(readline.get_line_buffer()[: readline.get_endidx()], word)
        return self._found[number] if number < len(self._found) else None

    def _completions(self, line: str, word: str) -> list[str]:
        """What a line can go on with: what bash would be told, and names that only the shell has."""
        before = line[: len(line) - len(word)].rpartition(";")[2].split()
        if not before:
            return [f"{name} " for name in sorted(self._names()) if name.startswith(word)]
        before = self._with_alias(before)
        if before[0] in self.own:
            before = ["latency"] if before == ["connect"] else before  # which takes an application first
        elif self.group.get_command(None, before[0]) is not None:
            before = self.with_app(before)
        asked = {
            "_RIDGELINE_COMPLETE": "complete_bash",
            "COMP_WORDS": shlex.join(["ridgeline", *before, word]),
            "COMP_CWORD": str(1 + len(before)),
        }
        os.environ.update(asked)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as found:
                self._here([], complete_var="_RIDGELINE_COMPLETE")
        finally:
            for name in asked:
                del os.environ[name]
        return [f"{one} " for one in found.getvalue().split()]


def commands_of(line: str) -> list[list[str]]:
    """The words of each command of a line; `;` stands between them, `#` before a remark at its beginning.

    Raises CommandError for a quote without an end.
    """
    if line.lstrip().startswith("#"):
        return []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";")
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    try:
        for word in lexer:
            if word and set(word) == {";"}:
                found.append([])
            else:
                found[-1].append(word)
    except ValueError as error:
        raise CommandError(f"{error}; end the quote, or write `\\` before it") from None
    return [words for words in found if words]


def filled(line: str, arguments: Sequence[str]) -> str:
    """A line of a macro with `$1` to `$9` replaced. Raises CommandError for one that was not given."""

    def value(found: re.Match[str]) -> str:
        if (number := int(found[1])) > len(arguments):
            raise CommandError(f"the macro's line `{line}` takes `${number}`; got {len(arguments)} words")
        return shlex.quote(arguments[number - 1])

    return _ARGUMENT.sub(value, line)


def _in_own_process(words: Sequence[str], **settings: Any) -> int:
    """Carry out a command of `ridgeline` in a process of its own, which Ctrl-C is for; its exit code."""

    def leave_it(_number: int, _frame: object) -> None:
        """Ctrl-C reaches all processes of the terminal; the other one ends in order."""

    before = signal.signal(signal.SIGINT, leave_it)
    try:
        command = [sys.executable, "-m", "ridgeline", *words]
        return subprocess.run(command, check=False, **settings).returncode  # noqa: S603  the user's words
    finally:
        signal.signal(signal.SIGINT, before)


def _through_pager(words: Sequence[str]) -> int:
    """Carry out a command of `ridgeline`, and show its answer by the pager; its exit code."""
    pager = shlex.split(os.environ.get("PAGER", "less -R"))
    try:
        reader = subprocess.Popen(pager, stdin=subprocess.PIPE)  # noqa: S603  the user's own
    except OSError as error:
        raise CommandError(f"`{pager[0]}` cannot be started: {error.strerror}; set `PAGER`") from None
    with reader:
        columns = str(shutil.get_terminal_size().columns)
        return _in_own_process(words, stdout=reader.stdin, env={**os.environ, "COLUMNS": columns})


@contextlib.contextmanager
def _history(path: Path) -> Iterator[None]:
    """Lines of earlier sessions, in a file that only its owner reads, if it can be written."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
        readline.read_history_file(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            readline.write_history_file(path)
