"""Lines of the shell as words; the names that other systems' users type; macros."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from ridgeline.cli.errors import CommandError

APEX_NAMES = {
    "launch": "run",
    "get-app-package-info": "get-package-info",
    "get-app-package-operators": "get-package-info",
    "get-jar-operator-classes": "list-library",
    "get-jar-operator-properties": "describe-operator",
    "list-default-app-attributes": "list-attributes --scope application",
    "list-default-operator-attributes": "list-attributes --scope operator",
    "list-default-port-attributes": "list-attributes --scope input-port",
    "get-config-parameter": "dump-config",
    "get-recording-info": "list-recordings",
    "get-container-stacktrace": "get-stack",
    "dump-properties-file": "plan --spec",
}
"""Commands of Apex's shell, each with ours. Those of the same name are not here."""
WITHOUT_OURS = {
    "clean-app-directories": "a run removes its own files when it ends; `checkpoint prune --temporary` "
    "removes those of runs that were killed, `checkpoint prune DIR` what a checkpoint does not need",
    "get-app-package-operator-properties": "`get-package-info PACKAGE` lists applications and operators; "
    "`dump-config PACKAGE` has every property of one with its value",
    "set-pager": "answers are not paged; `ridgeline COMMAND | less` pages one",
}
"""Commands of Apex's shell that have none here, each with what to do."""
_ARGUMENT = re.compile(r"\$(\d)")
_MOST_STEPS = 20
"""How often a line is replaced by an alias, one after the other, before that is an error."""


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


def with_alias(words: Sequence[str], aliases: dict[str, list[str]]) -> list[str]:
    """The words, with the first one replaced while it is an alias or a name of Apex.

    An alias that begins with its own name is not replaced again. Raises CommandError for a circle.
    """
    known = {**{name: ours.split() for name, ours in APEX_NAMES.items()}, **aliases}
    found = list(words)
    for _ in range(_MOST_STEPS):
        named = known.get(found[0])
        if named is None:
            return found
        again = named[0] == found[0]
        found = [*named, *found[1:]]
        if again:
            return found
    raise CommandError(
        f"the alias `{words[0]}` leads back to itself; see `alias`, and take one back with `unalias NAME`"
    )


def filled(line: str, arguments: Sequence[str]) -> str:
    """A line of a macro with `$1` to `$9` replaced. Raises CommandError for one that was not given."""

    def value(found: re.Match[str]) -> str:
        number = int(found[1])
        if not 1 <= number <= len(arguments):
            raise CommandError(f"the macro's line `{line}` takes `${number}`; got {len(arguments)} words")
        return shlex.quote(arguments[number - 1])

    return _ARGUMENT.sub(value, line)
