"""A change of the plan that is put together by commands, one a line, and sent as a whole."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from ridgeline.api.errors import ChangeError, did_you_mean
from ridgeline.cli.errors import CommandError, make_console, print_error
from ridgeline.cli.remote import shared
from ridgeline.cli.remote.change_request import ChangeSender
from ridgeline.cli.remote.changing import partitioner_of
from ridgeline.cli.units import plural
from ridgeline.plan.change.edit_texts import edit_text
from ridgeline.plan.edits import edit_of

PROMPT = "logical-plan-change> "


@dataclass(frozen=True, slots=True)
class _Command:
    """A command of a session: its words after the name, what it does, and the edit that it is.

    Words in brackets may be left out.
    """

    words: str
    help: str
    edit: Callable[..., Mapping[str, Any]] | None = None

    @property
    def least(self) -> int:
        """How many words it needs."""
        return len([word for word in self.words.split() if not word.startswith("[")])

    @property
    def most(self) -> int:
        """How many words it takes."""
        return len(self.words.split())


def _set_attribute(operator: str, attribute: str, value: str, port: str = "") -> Mapping[str, Any]:
    edit = {"do": "set-attribute", "operator": operator, "attribute": attribute, "value": value}
    return {**edit, "port": port} if port else edit


def _repartition(operator: str, partitions: str, partitioner: str = "") -> Mapping[str, Any]:
    if not partitions.isdecimal():
        msg = f"`{partitions}` is no number of partitions; give a whole number"
        raise CommandError(msg)
    edit = {"do": "repartition", "operator": operator, "partitions": int(partitions)}
    return {**edit, "partitioner": partitioner_of(partitioner)} if partitioner else edit


COMMANDS: Mapping[str, _Command] = {
    "create-operator": _Command(
        "NAME CLASS",
        "add an operator of a class, by its import path",
        lambda name, kind: {"do": "add-operator", "name": name, "spec": {"class": kind}},
    ),
    "create-stream": _Command(
        "NAME FROM-OPERATOR FROM-PORT TO-OPERATOR TO-PORT",
        "join an output port to an input port",
        lambda name, source, output, sink, port: {
            "do": "add-stream",
            "name": name,
            "source": f"{source}.{output}",
            "sinks": [f"{sink}.{port}"],
        },
    ),
    "add-stream-sink": _Command(
        "STREAM TO-OPERATOR TO-PORT",
        "let one more input port read a stream",
        lambda name, sink, port: {"do": "add-sink", "stream": name, "sink": f"{sink}.{port}"},
    ),
    "remove-stream-sink": _Command(
        "STREAM TO-OPERATOR TO-PORT",
        "let an input port read a stream no more",
        lambda name, sink, port: {"do": "remove-sink", "stream": name, "sink": f"{sink}.{port}"},
    ),
    "remove-operator": _Command(
        "NAME",
        "remove an operator, its state, and the ends of streams at it",
        lambda name: {"do": "remove-operator", "name": name},
    ),
    "replace-operator": _Command(
        "NAME CLASS",
        "put an operator of another class in the place of one",
        lambda name, kind: {"do": "replace-operator", "name": name, "spec": {"class": kind}},
    ),
    "rename-operator": _Command(
        "NAME NEW",
        "give an operator another name",
        lambda name, new: {"do": "rename-operator", "name": name, "new": new},
    ),
    "remove-stream": _Command("NAME", "remove a stream", lambda name: {"do": "remove-stream", "name": name}),
    "repartition": _Command(
        "OPERATOR N [PARTITIONER]", "give an operator another number of partitions", _repartition
    ),
    "set-operator-property": _Command(
        "OPERATOR PROPERTY VALUE",
        "give a property a value",
        lambda operator, name, value: {
            "do": "set-property",
            "operator": operator,
            "property": name,
            "value": value,
        },
    ),
    "set-operator-attribute": _Command(
        "OPERATOR ATTRIBUTE VALUE", "give an attribute of an operator a value", _set_attribute
    ),
    "set-port-attribute": _Command(
        "OPERATOR PORT ATTRIBUTE VALUE",
        "give an attribute of a port a value",
        lambda operator, port, name, value: _set_attribute(operator, name, value, port),
    ),
    "set-stream-attribute": _Command(
        "STREAM ATTRIBUTE VALUE",
        "give an attribute of a stream a value: `locality`",
        lambda stream, name, value: _set_attribute(f"stream.{stream}", name, value),
    ),
    "show-queue": _Command("", "show what is to be submitted"),
    "undo": _Command("", "take back the last of it"),
    "dry-run": _Command("", "show what it would change"),
    "submit": _Command("", "make the change, all of it at one window boundary"),
    "abort": _Command("", "leave everything as it is"),
    "help": _Command("", "show this list"),
}


class PlanSession:
    """Reads commands until `submit` or `abort`. In a script the first wrong one ends it."""

    def __init__(self, sender: ChangeSender, note: str = "", *, interactive: bool) -> None:
        self._sender = sender
        self._note = note
        self._interactive = interactive
        self._queue: list[Mapping[str, Any]] = []
        self._console = shared.make_console()

    def run(self, lines: Iterable[str]) -> None:
        """Carry out the commands of all lines. Raises CommandError, and what `ChangeSender` raises."""
        self._prompt()
        for number, line in enumerate(lines, 1):
            try:
                if self._carry_out(shlex.split(line, comments=True)):
                    return
            except (CommandError, ChangeError, ValueError) as error:
                mend = "; mend the quotes" if isinstance(error, ValueError) else ""
                wrong = error if isinstance(error, CommandError) else CommandError(f"{error}{mend}")
                if not self._interactive:
                    msg = f"line {number}: {wrong}; nothing is changed"
                    raise CommandError(msg, wrong.details) from None
                print_error(wrong, make_console())
            self._prompt()
        if self._queue and not self._interactive:
            msg = f"{plural(len(self._queue), 'edit')} not submitted; end with the line `submit`"
            raise CommandError(msg)
        self._say("nothing is changed")

    def _prompt(self) -> None:
        if self._interactive:
            self._console.print(PROMPT, end="")

    def _say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def _carry_out(self, words: list[str]) -> bool:
        """Carry out one command; True if it ends the session. Raises CommandError."""
        if not words:
            return False
        name, *given = words
        command = COMMANDS.get(name)
        if command is None:
            msg = f"there is no command `{name}`; {did_you_mean(name, COMMANDS)}"
            raise CommandError(msg)
        if not command.least <= len(given) <= command.most:
            takes = f"`{command.words}`" if command.words else "nothing"
            msg = f"`{name}` takes {takes}; got {len(given)} words"
            raise CommandError(msg)
        if command.edit is not None:
            edit = command.edit(*given)
            edit_of(edit)
            self._queue.append(edit)
            return False
        return self._manage(name)

    def _manage(self, name: str) -> bool:
        """Carry out a command that is no edit; True if it ends the session. Raises CommandError."""
        match name:
            case "abort":
                self._say("nothing is changed")
                return True
            case "submit":
                self._check_queue()
                self._sender.change(self._queue, self._note)
                return True
            case "dry-run":
                self._check_queue()
                self._sender.change(self._queue, dry_run=True)
            case "undo":
                self._check_queue()
                self._say(f"taken back: {edit_text(edit_of(self._queue.pop()))}")
            case "show-queue":
                for number, edit in enumerate(self._queue, 1):
                    self._say(f"{number:3}. {edit_text(edit_of(edit))}")
                if not self._queue:
                    self._say("the queue is empty")
            case _:
                for title, command in COMMANDS.items():
                    self._say(f"{f'{title} {command.words}':72} {command.help}")
        return False

    def _check_queue(self) -> None:
        if not self._queue:
            msg = "the queue is empty; begin with a command such as `create-operator NAME CLASS`"
            raise CommandError(msg)
