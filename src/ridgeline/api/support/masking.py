"""Texts of values that are safe to show: secrets are masked, control characters escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import pydantic

from ridgeline.api.errors import TEXT_LIMIT, capped, cut_in_the_middle, safe_repr, shorten
from ridgeline.api.support.secret_names import is_secret
from ridgeline.api.support.secrets.addresses import QUERY_VALUE, URL_USER, mask_spans, password_in_url

MASK = "***"
_LONGEST_TEXT = 100_000
"""Length, in characters, to which a `repr` is cut once secrets are masked in it."""
_AROUND_CUT = 8_192
"""Characters that are searched beyond those that are kept of a text: more than a secret has."""
_SECRET_TYPES = (pydantic.SecretStr, pydantic.SecretBytes, pydantic.Secret)
_SHORTEST_HIDDEN, _SHORTEST_OF_LETTERS, _MOST_HIDDEN = 8, 16, 1_000
"""Shorter ones are words of many texts, such as `postgres`."""
_hidden: dict[str, None] = {}
_hiding: list[re.Pattern[str]] = []
"""The pattern of the secrets that this process was given, once there are any."""

_NAME = re.compile(
    r"(?<![\w.$-])"
    r"(?P<name>(?:(?:account|access|api|private|secret|shared|shared access|signing)[ ])?[\w.$-]++)"
    r"(?:\\*['\"])?[ \t]*(?:=>|[=:])[ \t]*",
    re.IGNORECASE,
)
"""A name of one or two words, in quotes or not, and the sign that a value follows."""
_QUOTED = (
    r"[bu]?(?P<quote>\\*['\"])(?P<inner>(?:(?!(?P=quote))(?:\\.|.))*)"  # to the end of the line if it was cut
)
_BRACKETS = r"\{[^}\n]*\}?|\[[^\]\n]*\]?|[\w.]*\([^)\n]*\)?"
_VALUE = re.compile(
    rf"(?!\.\.\.)(?:{_QUOTED}|(?P<bare>{_BRACKETS}|[^\s;'\"]*[^\s;'\",.)\]}}]))", re.IGNORECASE
)
_HEADER = re.compile(
    r"\b((?:proxy-)?authorization|(?:set-)?cookie)(\\*['\"]?\s*[:=]\s*)(\\*['\"]?)([^'\"\r\n\\]+)",
    re.IGNORECASE,
)
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"}
_CONTROLS |= {ord("\r"): "\\r", ord("\b"): "\\b"}
_CONTROLS |= {
    code: f"\\u{code:04x}"
    for code in (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
}
# Halves of surrogate pairs, which cannot be sent to a terminal.
_CONTROLS |= {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
_JSON_CONTROLS = {code: f"\\u{code:04x}" for code in _CONTROLS if code >= ord(" ")}


def mask(name: str, value: object) -> Any:  # noqa: PLR0911  a case each
    """Mask the secrets in the value of a property or option.

    Returns `***` if its name is a secret's; otherwise the value with the secrets in it masked. Lists, tuples
    and mappings keep their form. Other objects become the text of their `repr`.

    >>> mask("options", {"user": "ann", "password": "x", "nothing": None})
    {'user': 'ann', 'password': '***', 'nothing': None}
    >>> mask("fs.s3a.access.key", "AKIA"), mask("partition_key", "symbol"), mask("max_tokens", 100)
    ('***', 'symbol', 100)
    """
    # whatever its name is: the author has declared it a secret
    if isinstance(value, _SECRET_TYPES):
        return MASK
    if isinstance(value, dict):
        return {
            mask_text(key) if isinstance(key, str) else key: mask(_within(name, key), part)
            for key, part in value.items()
        }
    if type(value) in {list, tuple, set, frozenset}:
        return _parts(name, value)
    # an unset secret is shown as such: that explains many a failure
    if value is None or isinstance(value, bool) or value in ("", b""):
        return value
    if is_secret(name):
        return MASK
    if isinstance(value, (int, float)):
        return value
    return mask_text(value) if isinstance(value, str) else masked_and_shortened(value, _LONGEST_TEXT)


def _parts(name: str, value: Any) -> Any:
    """`mask` of a collection. The first part of a pair names the second: `("Authorization", "Bearer x")`."""
    parts = list(value)
    if len(parts) == 2 and isinstance(parts[0], str) and is_secret(parts[0]):  # noqa: PLR2004  a pair
        parts = [parts[0], mask(parts[0], parts[1])]
    else:
        parts = [mask(name, part) for part in parts]
    return tuple(parts) if isinstance(value, tuple) else parts


def shown(name: str, value: object) -> str:
    """A property's or option's value in an error text: its shortened `repr` without secrets.

    `name` may be the path of a part of a property, as pydantic writes it: `options.password.str`.

    >>> shown("limit", -1), shown("password", "x"), shown("options.pass.str", "x")
    ('-1', "'***'", "'***'")
    """
    masked = (
        MASK
        if any(map(is_secret, name.split("."))) and isinstance(value, (str, bytes))
        else mask(name, value)
    )
    is_text = isinstance(masked, str) and not isinstance(value, (str, bytes)) and masked != MASK
    return shorten(_AsItIs(masked) if is_text else masked)


class _AsItIs(str):
    """A text whose `repr` is itself."""

    __slots__ = ()
    __repr__ = str.__str__


def is_secret_type(kind: Any) -> bool:
    """True if values of a type are or contain secrets: `SecretStr`, `dict[str, SecretStr] | None`."""
    return (isinstance(kind, type) and issubclass(kind, _SECRET_TYPES)) or any(
        map(is_secret_type, get_args(kind))
    )


def _within(name: str, key: object) -> str:
    """The name of a part of a mapping.

    In a mapping with a secret's name, such as `credentials`, every part is secret unless its own name is
    harmless.
    """
    return f"{name}.{key}" if is_secret(name) else str(key)


def secrets_in(name: str, value: Any) -> Iterator[str | bytes]:
    """The texts within a value that `mask` would mask."""
    if isinstance(value, _SECRET_TYPES):
        named = vars(value).get("_secret_value")  # what names a place is not read
        yield from secrets_in("secret", named)
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from secrets_in(_within(name, key), part)
    elif type(value) in {list, tuple, set, frozenset}:
        for part, masked in zip(value, _parts(name, value), strict=True):
            yield from secrets_in("secret" if masked == MASK else name, part)
    elif isinstance(value, (str, bytes)) and (
        is_secret(name) or (isinstance(value, str) and mask_text(value) != value)
    ):
        yield value


def mask_text(text: str) -> str:
    """Mask the secrets in a text: those that were given, passwords in URLs, and values after a secret's name.

    Finds `password=x`, `"apiKey": "x"`, `Authorization: ...`, `?sig=x`, and the password in
    `scheme://user:x@host`, even if it contains `@`. A secret that nothing names, and that this process was
    not given, is not known. Takes time linear in the text's length.

    >>> mask_text("jdbc:postgresql://ann:p@ss@db/sales?sslpassword=y&ssl=true")
    'jdbc:postgresql://ann:***@db/sales?sslpassword=***&ssl=true'
    >>> mask_text("Authorization: Basic YW5uOng=")
    'Authorization: ***'
    """
    text = _HEADER.sub(rf"\1\2\3{MASK}", mask_given(text))
    text = mask_spans(text, URL_USER, password_in_url)
    return mask_spans(text, _NAME, _named_value)


def holds_secret(name: str, value: str) -> bool:
    """Whether a setting is a secret by its name, or has one in its text.

    >>> holds_secret("spark.hadoop.fs.s3a.secret.key", "x"), holds_secret("spark.proxy", "http://ann:x@host")
    (True, True)
    """
    return is_secret(name) or mask_text(value) != value


def masked_and_capped(text: str, limit: int = TEXT_LIMIT) -> str:
    """`capped` of a text without its secrets: one that is cut in half would not be known any more.

    >>> "hunter2" in masked_and_capped("x" * 60 + " scott://ann:hunter2hunter2@db " + "y" * 90, 80)
    False
    """
    return capped(_masked_ends(text, limit), limit)


def masked_and_shortened(value: object, limit: int = 200) -> str:
    """`shorten` of a value, without the secrets in its `repr`: these are masked before it is cut."""
    return cut_in_the_middle(_masked_ends(safe_repr(value), limit), limit)


def _masked_ends(text: str, limit: int) -> str:
    """Mask the secrets in a text of which `limit` characters are kept, of its head and its tail."""
    searched = limit + _AROUND_CUT
    if len(text) > 2 * searched:
        return f"{mask_text(text[:searched])} ... {mask_text(text[-searched:])}"
    return mask_text(text)


def mask_given(text: str) -> str:
    """Mask only the secrets that this process was given, see `hide`; the quick part of `mask_text`."""
    for pattern in _hiding:
        text = pattern.sub(MASK, text)
    return text


def hide(secret: str) -> None:
    """Let `mask_text` mask a secret that this process was given, wherever it stands in a text.

    Words of many texts are not hidden: fewer than eight characters, or 16 if all are letters. Of more than
    1,000 the oldest is hidden no more.
    """
    shortest = _SHORTEST_OF_LETTERS if secret.isalpha() else _SHORTEST_HIDDEN
    if len(secret) < shortest or secret in _hidden:
        return
    _hidden[secret] = None
    while len(_hidden) > _MOST_HIDDEN:
        _hidden.pop(next(iter(_hidden)))
    longest_first = sorted(_hidden, key=len, reverse=True)
    _hiding[:] = [re.compile("|".join(map(re.escape, longest_first)))]


def printable(text: str) -> str:
    r"""Escape the characters by which a text could control a terminal; newlines and tabs stay.

    Escapes control characters, bidirectional marks and halves of surrogate pairs.

    >>> printable("a\x1b[2Jb\r\u202ec")
    'a\\x1b[2Jb\\r\\u202ec'
    """
    return text if text.isprintable() else text.translate(_CONTROLS)


def printable_json(document: str) -> str:
    """Escape the control characters that JSON allows unescaped; the document's meaning stays the same."""
    return document.translate(_JSON_CONTROLS)


def _named_value(text: str, found: re.Match[str]) -> tuple[int, int]:
    """The span of the value after a name, without quotes; empty if the name is not a secret's."""
    start = found.end()
    if not is_secret(found["name"]):
        return start, start
    if found.start() > 0 and text[found.start() - 1] in "?&":
        value = QUERY_VALUE.match(text, start)
        return (start, value.end()) if value is not None else (start, start)
    value = _VALUE.match(text, start)
    return value.span("inner" if value["bare"] is None else "bare") if value is not None else (start, start)
