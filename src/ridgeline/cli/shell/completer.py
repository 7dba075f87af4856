"""Completion in the shell: names of commands, options, and what an argument can be."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from ridgeline.api.errors import RidgelineError
from ridgeline.cli import completing
from ridgeline.cli.shell.session import OWN, Session
from ridgeline.cli.shell.words import APEX_NAMES, with_alias

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
