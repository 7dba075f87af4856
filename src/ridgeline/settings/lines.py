"""The lines of a file's keys, for faults and lists: found when they are first asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import javaproperties
import yaml

from ridgeline.plan.spec.form import Form, form_of

_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(?:#.*)?\Z")
_PAIR = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_PART = re.compile(r"""[\w-]+|"([^"]*)"|'([^']*)'""")
_PARSER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def lines_of(path: Path) -> Callable[[str], int | None]:
    """A function that returns the line of a dotted key of a file; None where it is not known."""
    found: dict[str, int] = {}
    read = False

    def line_of(key: str) -> int | None:
        nonlocal read
        if not read:
            read = True
            found.update(_lines(path))
        return found.get(key)

    return line_of


def _lines(path: Path) -> dict[str, int]:
    """The line of each key; of those only that can be found."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        form = form_of(path.name)
        if form is Form.TOML:
            return _toml_lines(text)
        return _properties_lines(text) if form is Form.PROPERTIES else _yaml_lines(text)
    except (OSError, ValueError, yaml.YAMLError):  # it has changed, or is JSON that is no YAML
        return {}


def _yaml_lines(text: str) -> dict[str, int]:
    """Of YAML, and of JSON, which is nearly all YAML."""
    found: dict[str, int] = {}
    above: list[str | None] = []  # the key of each mapping around; None: of a list
    key: str | None = None
    for event in yaml.parse(text, Loader=_PARSER):
        if isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            above.append(key)
            above.append("" if isinstance(event, yaml.MappingStartEvent) else None)
            key = None
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            del above[-2:]
            key = None
        elif not above or above[-1] is None:
            continue
        elif key is None and isinstance(event, yaml.ScalarEvent):
            key = event.value
            if None not in above[1::2]:
                path = ".".join([*filter(None, above[::2]), key])
                found[path] = event.start_mark.line + 1
        else:
            key = None
    return found


def _properties_lines(text: str) -> dict[str, int]:
    found = {}
    line = 1
    for element in javaproperties.parse(text.replace("\r\n", "\n")):
        if isinstance(element, javaproperties.KeyValue):
            found[element.key] = line
        line += max(1, element.source.count("\n"))
    return found


def _toml_lines(text: str) -> dict[str, int]:
    """By tables and pairs; what stands in a value of several lines may be found in vain."""
    found = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (header := _TABLE.match(line)) is not None:
            table = _joined(header[1])
        elif (pair := _PAIR.match(line)) is not None:
            found[".".join(filter(None, [table, _joined(pair[1])]))] = number
    return found


def _joined(key: str) -> str:
    return ".".join(part[1] or part[2] or part[0].strip("\"'") for part in _PART.finditer(key))
