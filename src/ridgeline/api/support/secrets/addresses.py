"""Addresses with a user's password or key in them, such as `s3://KEY:SECRET@bucket`: as they may be shown."""

from __future__ import annotations

import re
from collections.abc import Callable

from ridgeline.api.support.secret_names import is_secret

_MASK = "***"
URL_USER = re.compile(r"\w://[^\s/:'\"]{0,500}+:")
QUERY_VALUE = re.compile(r"[^\s&;#'\"]+")
_URL_REST = re.compile(r"[^\s'\"<>]{0,500}")
_PORT = re.compile(r"\d+(?:[/?#,]|$)")
_PARAMETER = re.compile(r"[?&](?P<name>[\w.-]++)=")


def mask_addresses(text: str) -> str:
    """Mask the password of `scheme://user:password@host`, and parameters of addresses with a secret's name.

    The rest stays as it is, unlike with `mask_text`: it is for texts of our own. Linear in their length.

    >>> mask_addresses("`s3://ann:x/y@bucket?secret_key=z&region=a` cannot be read; give `password: str`")
    '`s3://ann:***@bucket?secret_key=***&region=a` cannot be read; give `password: str`'
    """
    if "://" not in text:
        return text
    text = mask_spans(text, URL_USER, password_in_url)
    return mask_spans(text, _PARAMETER, _parameter)


def mask_spans(
    text: str, head: re.Pattern[str], span_of: Callable[[str, re.Match[str]], tuple[int, int]]
) -> str:
    """Mask the span that `span_of` returns for each match of `head`, unless it is empty."""
    parts, done, found = [], 0, head.search(text)
    while found is not None:
        start, end = span_of(text, found)
        if end > start:
            parts += [text[done:start], _MASK]
            done = end
        found = head.search(text, end)
    return "".join([*parts, text[done:]])


def password_in_url(text: str, found: re.Match[str]) -> tuple[int, int]:
    """The span of the password after `scheme://user:`; empty if there is none.

    A password may contain `@`, and `/` if there is no `@` before it.
    """
    start = found.end()
    found_rest = _URL_REST.match(text, start)
    rest = found_rest[0] if found_rest is not None else ""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        return start, start + authority.rindex("@")
    return start, start if _PORT.match(rest) else start + max(0, rest.rfind("@"))


def _parameter(text: str, found: re.Match[str]) -> tuple[int, int]:
    """The span of the value of a parameter; empty if its name is not a secret's."""
    value = QUERY_VALUE.match(text, found.end()) if is_secret(found["name"]) else None
    return (found.end(), found.end()) if value is None else value.span()
