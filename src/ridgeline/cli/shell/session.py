"""The session of the shell: lines become commands of `ridgeline`, or commands of the shell itself."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.text import Text

from ridgeline.api.errors import RidgelineError, did_you_mean, nearest
from ridgeline.cli.errors import CommandError, exit_code, make_console, print_error
from ridgeline.cli.remote import shared
from ridgeline.cli.shell.words import WITHOUT_OURS, commands_of, filled, with_alias

_STARTS_SPARK = ("doctor",)
_APPLICATIONS = ("target", "a")
"""Arguments that name an application whose code is loaded. A process loads a module once only."""
_DUMP = ("plan", "--spec", "FILE")
"""Apex's `dump-properties-file FILE`, which is about the application of `connect`."""
_DEEPEST = 20
"""Macros and scripts that call each other."""


class _Own(NamedTuple):
    """A command of the shell: the words it takes, and what it does."""

    words: str
    help: str
    least: int
    most: int | None


OWN = {
    "connect": _Own("APP", "give APP to all commands about a running application", 1, 1),
    "disconnect": _Own("", "name the application in each command again", 0, 0),
    "alias": _Own("[NAME COMMAND...]", "call a command by another name; without words: list them", 0, None),
    "unalias": _Own("NAME", "take an alias back", 1, 1),
    "begin-macro": _Own("NAME", "put the lines up to `end` under a name; `$1` to `$9` are its words", 1, 1),
    "source": _Own("FILE", "carry out the lines of a file", 1, 1),
    "echo": _Own("[TEXT...]", "print a text", 0, None),
    "help": _Own("[COMMAND]", "describe a command, or list all", 0, 1),
    "exit": _Own("", "leave; so does Ctrl-D", 0, 0),
}
"""The commands that are the shell's own."""


def home() -> Path:
    """The folder of the history and of `shellrc`: `$RIDGELINE_HOME`, else `~/.ridgeline`."""
    given = os.environ.get("RIDGELINE_HOME")
    return Path(given).expanduser() if given else Path.home() / ".ridgeline"


class LeaveError(Exception):
    """`exit` was typed."""


class FailedError(Exception):
    """A command of a script has failed: `code` is its exit code, `where` the script and the line."""

    def __init__(self, code: int, where: str) -> None:
        super().__init__(where)
        self.code, self.where = code, where


class _Script:
    """The lines of a file or macro, and how many were taken."""

    def __init__(self, name: str, lines: Sequence[str]) -> None:
        self.name, self._lines = name, lines
        self.number = 0

    def next(self) -> str | None:
        """The next line."""
        self.number += 1
        return self._lines[self.number - 1] if self.number <= len(self._lines) else None


class Session:
    """Carries out lines.

    An error in a line that was typed is printed, and the next line is read. In a script it ends the script.
    """

    def __init__(self, group: Any) -> None:
        """`group`: the commands of `ridgeline`."""
        self.group = group
        self.read: Callable[[str], str | None] = lambda _prompt: None
        """Asks for the next line with a prompt; None: there is none any more."""
        self.app: str | None = None
        """The application that commands are about."""
        self.changing: str | None = None
        """The application whose plan is being changed, by commands of that mode."""
        self.aliases: dict[str, list[str]] = {}
        self.macros: dict[str, list[str]] = {}
        self._scripts: list[_Script] = []
        self._console = shared.make_console()

    @property
    def prompt(self) -> str:
        """Stands before a line: the application, if there is one."""
        return f"{self.app or 'ridgeline'}> "

    @property
    def names(self) -> list[str]:
        """All that a line can begin with."""
        hidden = [name for name in self.group.list_commands(None) if not self._command(name).hidden]
        return sorted({*hidden, *OWN, *self.aliases, *self.macros})

    # Lines --------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Carry out what is typed, until its end or `exit`."""
        while (line := self.next_line(self.prompt)) is not None:
            try:
                self.carry_out(line)
            except LeaveError:
                return
            except KeyboardInterrupt:
                continue  # it ends the command, not the shell
            except FailedError as error:
                if error.where:
                    self._say(f"{error.where} ended it")

    def run_script(self, name: str, lines: Sequence[str]) -> None:
        """Carry out lines. Raises FailedError at the first command that fails, LeaveError at `exit`."""
        if len(self._scripts) >= _DEEPEST:
            raise CommandError(f"`{name}` is called by what it calls, {_DEEPEST} deep; end the circle")
        script = _Script(name, lines)
        self._scripts.append(script)
        try:
            while (line := script.next()) is not None:
                self.carry_out(line)
        finally:
            self._scripts.pop()

    def next_line(self, prompt: str) -> str | None:
        """The next line: of the script that runs, else as typed. None at its end."""
        return self._scripts[-1].next() if self._scripts else self.read(prompt)

    def lines(self, prompt: str) -> Iterator[str]:
        """The lines that follow, for a command that reads some itself."""
        while (line := self.next_line(prompt)) is not None:
            yield line

    @property
    def scripted(self) -> bool:
        """Whether the lines are of a script or macro: a wrong one ends it."""
        return bool(self._scripts)

    @property
    def _where(self) -> str:
        """The line of the script that runs, and that of the first one; empty at a terminal."""
        names = [f"{one.name}, line {one.number}" for one in (self._scripts[-1:] + self._scripts[:1])]
        return " in ".join(dict.fromkeys(names))

    # Commands -----------------------------------------------------------------------------------------------

    def carry_out(self, line: str) -> None:
        """Carry out all commands of a line. Raises LeaveError, FailedError."""
        try:
            codes = map(self._one, commands_of(line))
            failed = next((code for code in codes if code), 0)
        except RidgelineError as error:
            print_error(error, make_console())
            failed = exit_code(error)
        if failed:
            raise FailedError(failed, self._where)

    def _one(self, words: list[str]) -> int:
        """Carry out one command; its exit code. Raises RidgelineError, LeaveError, FailedError."""
        words = with_alias(words, self.aliases)
        name = words[0]
        if name in self.macros:
            self.run_script(name, [filled(line, words[1:]) for line in self.macros[name]])
            return 0
        if name in OWN or name == "quit":
            self._shells_own("exit" if name == "quit" else name, words[1:])
            return 0
        if self.group.get_command(None, name) is None:
            raise self._unknown(name)
        words = self.with_app(words)
        return _in_own_process(words) if self._leaves_traces(name) else self._here(words)

    def _unknown(self, name: str) -> CommandError:
        """The error for a name that no command has."""
        if name in WITHOUT_OURS:
            return CommandError(f"Apex's `{name}` has no command of its own here: {WITHOUT_OURS[name]}")
        return CommandError(f"there is no command `{name}`; {_near(name, self.names)}")

    def _leaves_traces(self, name: str) -> bool:
        """Whether a command starts Spark or loads modules of users, which the next one would find."""
        parameters = getattr(self._command(name), "params", ())
        return name in _STARTS_SPARK or any(one.name in _APPLICATIONS for one in parameters)

    def with_app(self, words: list[str]) -> list[str]:
        """The words, with the application of `connect` where the command takes one and none is named.

        It is named where there are as many words as the command takes, or with `--url`: an operator may be
        called as an application.
        """
        command = self._command(words[0])
        if self.app is not None and words[:2] == ["plan", "--spec"] and len(words) == len(_DUMP):
            return [*words, self.app]
        if self.app is None or command is None or not command.params or command.params[0].name != "app":
            return words
        options = {name: one for one in command.params for name in one.opts if name.startswith("-")}
        taken = sum(one.param_type_name == "argument" for one in command.params)
        count, rest = 0, iter(words[1:])
        for word in rest:
            name, has_value, _ = word.partition("=")
            if name == "--url":
                return words
            if name not in options:
                count += 1
            elif not has_value and not options[name].is_flag:
                next(rest, None)
        return words if count >= taken else [words[0], self.app, *words[1:]]

    def _command(self, name: str) -> Any:
        return self.group.get_command(None, name)

    def _here(self, words: Sequence[str]) -> int:
        """Carry out a command of `ridgeline` in this process; its exit code."""
        try:
            self.group.main(args=list(words), prog_name="ridgeline", obj=self)
        except SystemExit as error:
            return error.code if isinstance(error.code, int) else int(error.code is not None)
        return 0

    def _shells_own(self, name: str, given: list[str]) -> None:
        """Carry out a command of the shell. Raises CommandError, LeaveError, FailedError."""
        own = OWN[name]
        if not own.least <= len(given) <= (len(given) if own.most is None else own.most):
            raise CommandError(
                f"`{name}` takes {f'`{own.words}`' if own.words else 'nothing'}; got {len(given)} words"
            )
        match name:
            case "connect":
                self._connect(given[0])
            case "disconnect":
                self.app = None
            case "alias":
                self._alias(given)
            case "unalias":
                if self.aliases.pop(given[0], None) is None:
                    raise CommandError(
                        f"there is no alias `{given[0]}`; {did_you_mean(given[0], self.aliases)}"
                    )
            case "begin-macro":
                self._macro(given[0])
            case "source":
                self.source(given[0])
            case "echo":
                self._say(" ".join(given))
            case "help":
                self._help(given)
            case _:
                raise LeaveError

    def _connect(self, app: str) -> None:
        """Ask the application once, so that a wrong name is said here. Raises CommandError."""
        info = shared.connect(app, None, os.environ.get("RIDGELINE_TOKEN")).get("/info")
        self.app = app
        self._say(f"{info['name']}: {info['id']}")

    def _alias(self, given: Sequence[str]) -> None:
        """Set an alias, or list all. Raises CommandError for what is no single command."""
        if len(given) == 1:
            raise CommandError(
                f"`alias {given[0]}` says no command; give one: `alias {given[0]} critical-path`"
            )
        if not given:
            for name, words in sorted(self.aliases.items()):
                self._say(f"{name}  {shlex.join(words)}")
            return
        self._check_name(given[0])
        name, *rest = given
        commands = commands_of(rest[0]) if len(rest) == 1 else [rest]  # in quotes, or not
        if len(commands) != 1:
            raise CommandError(
                f"an alias is one command; got {len(commands)}: make a macro with `begin-macro {name}`"
            )
        self.aliases[name] = commands[0]

    def _macro(self, name: str) -> None:
        self._check_name(name)
        lines: list[str] = []
        for line in self.lines(f"{name}> "):
            if line.strip() == "end":
                self.macros[name] = lines
                return
            lines.append(line)
        raise CommandError(f"the macro `{name}` has no end: give the line `end`")

    def _check_name(self, name: str) -> None:
        if name in OWN:
            raise CommandError(f"`{name}` is a command of the shell; give another name")

    def source(self, file: str) -> None:
        """Carry out the lines of a file. Raises CommandError, FailedError, LeaveError."""
        try:
            lines = Path(file).expanduser().read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
            raise CommandError(
                f"`{file}` cannot be read: {why}; give a file of commands, one a line"
            ) from None
        self.run_script(file, lines)

    def _help(self, given: Sequence[str]) -> None:
        """Describe a command, or list all. Raises CommandError if there is none of that name."""
        if not given:
            for name, own in OWN.items():
                self._say(f"{f'{name} {own.words}':34} {own.help}")
            for name, lines in sorted(self.macros.items()):
                self._say(f"{name:34} a macro of {len(lines)} lines")
            self._here(["--help"])
            return
        name = with_alias(given, self.aliases)[0]
        if name in OWN:
            self._say(f"{name} {OWN[name].words}: {OWN[name].help}")
        elif name in self.macros:
            self._say("\n".join(self.macros[name]))
        elif self._command(name) is None:
            raise self._unknown(name)
        else:
            self._here([name, "--help"])

    def _say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


def _near(name: str, names: Sequence[str]) -> str:
    """The command that is most like a name, else where all are."""
    close = nearest(name, names)
    return "`help` lists all" if close is None else f"did you mean `{close}`?"


def _in_own_process(words: Sequence[str]) -> int:
    """Carry out a command of `ridgeline` in a process of its own, which Ctrl-C is for; its exit code."""

    def leave_it(_number: int, _frame: object) -> None:
        """Ctrl-C reaches all processes of the terminal; the other one ends in order."""

    before = signal.signal(signal.SIGINT, leave_it)
    try:
        command = [sys.executable, "-m", "ridgeline", *words]
        return subprocess.run(command, check=False).returncode  # noqa: S603  the words of who types them
    finally:
        signal.signal(signal.SIGINT, before)
