"""A change of the plan that is put together by commands, one a line, and sent as a whole."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from rich.text import Text

from ridgeline.api.errors import ChangeError, did_you_mean
from ridgeline.cli.errors import CommandError, make_console, print_error
from ridgeline.cli.remote import shared
from ridgeline.cli.remote.change_request import ChangeSender
from ridgeline.measure.wording.units import plural
from ridgeline.plan.change.edit_texts import edit_text
from ridgeline.plan.change.verbs import VERBS, Verb
from ridgeline.plan.edits import Edit, edit_to_json

PROMPT = "logical-plan-change> "


_OWN = {
    "show-queue": "show what is to be submitted",
    "undo": "take back the last of it",
    "dry-run": "show what it would change",
    "submit": "make the change, all of it at one window boundary",
    "abort": "leave everything as it is",
    "help": "show this list",
}
"""The commands that make no edit, each with what it does."""
COMMANDS: Mapping[str, Verb | None] = {**VERBS, **dict.fromkeys(_OWN)}


class PlanSession:
    """Reads commands until `submit` or `abort`. In a script the first wrong one ends it.

    `prompts`: it prints its prompt; otherwise what reads the lines does.
    """

    def __init__(self, sender: ChangeSender, note: str = "", *, interactive: bool, prompts: bool) -> None:
        self._sender = sender
        self._note = note
        self._interactive, self._prompts = interactive, prompts
        self._queue: list[Edit] = []
        self._console = shared.make_console()

    def run(self, lines: Iterable[str]) -> None:
        """Carry out the commands of all lines. Raises CommandError, and what `ChangeSender` raises."""
        self._prompt()
        number = 0
        for number, line in enumerate(lines, 1):
            try:
                if self._carry_out(shlex.split(line, comments=True)):
                    return
            except (CommandError, ChangeError, ValueError) as error:
                fix = "; fix the quotes" if isinstance(error, ValueError) else ""
                wrong = error if isinstance(error, CommandError) else CommandError(f"{error}{fix}")
                if not self._interactive:
                    raise CommandError(f"line {number}: {wrong}; nothing is changed", wrong.details) from None
                print_error(wrong, make_console())
            self._prompt()
        if self._queue and not self._interactive:
            raise CommandError(
                f"{plural(len(self._queue), 'edit')} not submitted; end with the line `submit`"
            )
        if not number and not self._interactive:
            raise CommandError("give `--spec FILE` or `--edits FILE`, one of them, or commands, one a line")
        self._say("nothing is changed")

    def _prompt(self) -> None:
        if self._prompts:
            self._console.print(PROMPT, end="")

    def _say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)

    def _carry_out(self, words: list[str]) -> bool:
        """Carry out one command; True if it ends the session. Raises CommandError."""
        if not words:
            return False
        name, *given = words
        if name not in COMMANDS:
            raise CommandError(f"there is no command `{name}`; {did_you_mean(name, COMMANDS)}")
        verb = COMMANDS[name]
        words = verb.words.split() if verb is not None else []
        least = len([word for word in words if not word.startswith("[")])
        if not least <= len(given) <= len(words):
            takes = f"`{' '.join(words)}`" if words else "nothing"
            raise CommandError(f"`{name}` takes {takes}; got {len(given)} words")
        if verb is None:
            return self._manage(name)
        self._queue.append(verb.edit(*given))
        return False

    def _manage(self, name: str) -> bool:
        """Carry out a command that is no edit; True if it ends the session. Raises CommandError."""
        match name:
            case "abort":
                self._say("nothing is changed")
                return True
            case "submit":
                self._check_queue()
                self._sender.change(map(edit_to_json, self._queue), self._note)
                return True
            case "dry-run":
                self._check_queue()
                self._sender.change(map(edit_to_json, self._queue), dry_run=True)
            case "undo":
                self._check_queue()
                self._say(f"taken back: {edit_text(self._queue.pop())}")
            case "show-queue":
                for number, edit in enumerate(self._queue, 1):
                    self._say(f"{number:3}. {edit_text(edit)}")
                if not self._queue:
                    self._say("the queue is empty")
            case _:
                for title, verb in VERBS.items():
                    self._say(f"{f'{title} {verb.words}':72} {verb.help}")
                for title, does in _OWN.items():
                    self._say(f"{title + ' ':72} {does}")
        return False

    def _check_queue(self) -> None:
        if not self._queue:
            raise CommandError(
                "the queue is empty; begin with a command such as `create-operator NAME CLASS`"
            )
