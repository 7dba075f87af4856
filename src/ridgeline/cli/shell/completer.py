"""Completion in the shell: names of commands, options, and what an argument can be."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

import typer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from ridgeline.api.errors import RidgelineError
from ridgeline.cli import completing
from ridgeline.cli.remote.plan_session import COMMANDS
from ridgeline.cli.shell.session import OWN, Session
from ridgeline.cli.shell.words import APEX_NAMES, with_alias

_PARAMETERS = {
    "TO-OPERATOR": "operator",
    "FROM-OPERATOR": "operator",
    "PROPERTY": "name",
    "ATTRIBUTE": "name",
}
"""Words of edits, each with the parameter of commands that it is."""
_ABOUT = {
    "remove-operator": "OPERATOR",
    "replace-operator": "OPERATOR",
    "rename-operator": "OPERATOR",
    "remove-stream": "STREAM",
}
"""Edits whose first word names something that is there."""
_FILES = ("FILE", "DIR", "FOLDER")


class ShellCompleter(Completer):
    """Completes the last word of a line, for a session. `only`: all that a line can begin with, if given."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.only: Iterable[str] | None = None
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Words that the one before the cursor can become."""
        text = document.text_before_cursor.rpartition(";")[2].lstrip()
        words, last = _words_before(text)
        if not words:
            names = self._session.names if self.only is None else self.only
            yield from _completions(sorted(names), last)
            if last and self.only is None:
                yield from _completions(sorted(APEX_NAMES), last)
        elif self.only is None:
            yield from self._of_command(words, last, complete_event)
        else:
            yield from _completions(self._of_edit(words, last), last)

    def _of_edit(self, words: list[str], last: str) -> Iterable[str]:
        """Words that can follow those of a line of a plan that is being changed."""
        verb = COMMANDS.get(words[0])
        taken = [] if verb is None else verb.words.replace("[", "").replace("]", "").split()
        if len(words) > len(taken):
            return ()
        kind = taken[len(words) - 1]
        if kind == "NAME" and words[0] in _ABOUT:
            kind = _ABOUT[words[0]]
        find = completing.of(kind.rpartition("-")[2])
        if find is None:
            return ()
        context = typer.Context(self._session.group, info_name=words[0])
        context.params = {"app": self._session.changing or self._session.app}
        for name, word in zip(taken, words[1:], strict=False):
            context.params[_PARAMETERS.get(name, name.lower())] = word
        return [value for value, _ in completing.found(find, context, last)]

    def _of_command(self, words: list[str], last: str, event: CompleteEvent) -> Iterator[Completion]:
        """Words that can follow those of a command; none for a command that is not there."""
        session = self._session
        if words[0] in OWN:
            if words[0] == "connect":
                yield from _completions(completing.applications(last), last)
            elif words[0] == "help":
                yield from _completions(session.names, last)
            elif words[0] == "source":
                yield from self._files(last, event)
            return
        try:
            words = session.with_app(with_alias(words, session.aliases))
        except RidgelineError:
            return
        command = session.group.get_command(None, words[0])
        if command is None:
            return
        parameter, context = _parameter_of(command, words, last)
        if parameter is None:
            for option in command.params:
                if option.param_type_name == "option" and not option.hidden:
                    yield from _completions([(name, option.help or "") for name in option.opts], last)
            return
        found = [(item.value, item.help or "") for item in parameter.shell_complete(context, last)]
        yield from _completions(found, last)
        metavar = (parameter.metavar or "").strip("[]")
        if metavar in _FILES or parameter.name in {"target", "file"}:
            yield from self._files(last, event)

    def _files(self, last: str, event: CompleteEvent) -> Iterable[Completion]:
        return self._paths.get_completions(Document(last), event)


def _words_before(text: str) -> tuple[list[str], str]:
    """The words that are whole, and the one that is typed."""
    try:
        words = shlex.split(text)
    except ValueError:  # within a quote
        words = text.split()
    if not text or text[-1].isspace():
        return words, ""
    return words[:-1], words[-1] if words else ""


def _parameter_of(command: Any, words: list[str], last: str) -> tuple[Any, Any]:
    """The parameter that the word is a value of, None if it is an option's name; and the context."""
    context = command.make_context(words[0], words[1:], resilient_parsing=True)
    if last.startswith("-"):
        return None, context
    for option in command.params:
        if option.param_type_name == "option" and not option.is_flag and words[-1] in option.opts:
            return option, context
    for argument in command.params:
        if argument.param_type_name == "argument" and (
            argument.nargs == -1 or context.params.get(argument.name) is None
        ):
            return argument, context
    return None, context


def _completions(names: Iterable[str | tuple[str, str]], last: str) -> Iterator[Completion]:
    """Those that begin with the word."""
    for one in names:
        name, text = one if isinstance(one, tuple) else (one, "")
        if name.startswith(last):
            yield Completion(name, -len(last), display_meta=text)
