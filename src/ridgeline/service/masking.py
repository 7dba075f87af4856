"""Values of properties as others may see them: plain, and without what looks like a secret."""

from __future__ import annotations

import re
from typing import Any

from ridgeline.api.errors import shorten
from ridgeline.plan.to_json import plain

MASK = "***"
_NAME = r"(?:password|passwd|passphrase|secret|token|credential|api_?key|access_?key|private_?key)"
_SECRET = re.compile(_NAME, re.IGNORECASE)
_ASSIGNED = re.compile(rf"({_NAME}\w*['\"]?\s*[=:]\s*)('[^']*'|\"[^\"]*\"|[^\s,;&)}}\]]+)", re.IGNORECASE)
_USER_INFO = re.compile(r"(\w://[^/\s:@]*:)[^/\s@]+@")
_LONGEST_TEXT = 100_000  # of a `repr` that is searched for secrets


def shown(name: str, value: Any) -> Any:
    """A property's value for JSON: `***` if its name is a secret's, and secrets within texts, URLs, lists and mappings hidden likewise.

    >>> shown("options", {"user": "ann", "password": "x"})
    {'user': 'ann', 'password': '***'}
    >>> shown("url", "jdbc:postgresql://ann:x@db/sales?sslpassword=y&ssl=true")
    'jdbc:postgresql://ann:***@db/sales?sslpassword=***&ssl=true'
    """
    return plain(_masked(name, value))


def _masked(name: str, value: Any) -> Any:
    if _SECRET.search(name) and isinstance(value, (str, bytes)) and value:
        return MASK
    if isinstance(value, dict):
        return {key: _masked(str(key), part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_masked(name, part) for part in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    text = value if isinstance(value, str) else shorten(value, _LONGEST_TEXT)
    return _USER_INFO.sub(rf"\1{MASK}@", _ASSIGNED.sub(rf"\1{MASK}", text))
