"""The forms of Apex's guide: JSON with lists, and Java properties, `apex.operator.NAME.classname`.

They become a document in our form. Classes are import paths of Python; attributes have Apex's names in any
case, or ours. All values of properties are texts.
"""

from __future__ import annotations

import json
from typing import Any

import javaproperties

from ridgeline.api.errors import Fault, listed
from ridgeline.plan.spec.form import Document, FormError

_PREFIXES = ("apex.", "dt.")
_SECTIONS = {"operator": "operators", "stream": "streams", "attr": "", "application": ""}
_OPERATOR_KEYS = {"name", "class", "properties", "attributes"}
_STREAM_KEYS = {"name", "source", "sinks", "locality"}
_KEYS = {"name", "description", "operators", "streams", "attributes"}
_RULES = "affinity_rules_set"
_RULE_KEYS = {"operatorRegex": "pattern", "operatorsList": "operators", "relaxLocality": "relax"}
_KNOWN = (
    "the guide's keys are `operator.NAME.classname`, `operator.NAME.PROPERTY`, `stream.NAME.source`, `.sinks`"
)


def from_guide(document: Document, name: str) -> tuple[Document, bool, list[Fault]]:
    """The document in our form, whether its values are texts, and what cannot be brought into our form.

    `name`: of the application, which keys with `application.NAME.` must have.
    """
    if any(key.startswith(_PREFIXES) for key in document):
        return _from_properties(document, name)
    if any(isinstance(document.get(section), list) for section in ("operators", "streams")):
        return _from_lists(document)
    return document, False, []


def _from_lists(document: Document) -> tuple[Document, bool, list[Fault]]:
    """`operators` and `streams` as lists of objects with names."""
    faults: list[Fault] = []
    found: Document = {}
    for key, value in document.items():
        if key not in _KEYS:
            faults.append(
                Fault(key, f"there is no key `{key}` here", f"the guide has {listed(sorted(_KEYS))}")
            )
        elif key == "name":
            found["application"] = value
        elif key in {"operators", "streams"}:
            found[key] = _named(key, value, faults)
        elif key == "attributes" and isinstance(value, dict):
            found |= _of_application(_attributes(value), faults)
        else:
            found[key] = value
    return found, False, faults


def _named(section: str, given: object, faults: list[Fault]) -> Document:
    """A list of objects with names as a mapping."""
    found: Document = {}
    if not isinstance(given, list):
        faults.append(Fault(section, "is no list, as the rest of the file would have it", "give a list"))
        return found
    for index, entry in enumerate(given):
        where = f"{section}.{index}"
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(name, str):
            faults.append(Fault(where, "has no `name`", 'give it: `{"name": ...}`'))
            continue
        if name in found:
            faults.append(Fault(where, f"`{name}` is there twice", "give each a name of its own"))
        keys = _OPERATOR_KEYS if section == "operators" else _STREAM_KEYS
        faults += [
            Fault(
                f"{section}.{name}.{key}",
                f"there is no key `{key}` here",
                f"the guide has {listed(sorted(keys))}",
            )
            for key in entry
            if key not in keys
        ]
        read = _operator if section == "operators" else _stream
        found[name] = read({key: value for key, value in entry.items() if key in keys - {"name"}})
    return found


def _operator(entry: Document) -> Document:
    attributes = entry.get("attributes")
    return {**entry, "attributes": _attributes(attributes)} if isinstance(attributes, dict) else entry


def _stream(entry: Document) -> Document:
    """`source` and `sinks` as `operator.port`."""
    found = {key: value for key, value in entry.items() if key == "locality" and value is not None}
    if "source" in entry:
        found["from"] = _end(entry["source"])
    if "sinks" in entry:
        sinks = entry["sinks"]
        found["to"] = [_end(sink) for sink in sinks] if isinstance(sinks, list) else sinks
    return found


def _end(given: object) -> object:
    if isinstance(given, dict) and set(given) == {"operatorName", "portName"}:
        return f"{given['operatorName']}.{given['portName']}"
    return given


def _from_properties(pairs: Document, application: str) -> tuple[Document, bool, list[Fault]]:
    """Keys with `apex.` or `dt.` before them; all values are texts."""
    found: Document = {}
    faults: list[Fault] = []
    for key, value in pairs.items():
        prefix = next((prefix for prefix in _PREFIXES if key.startswith(prefix)), "")
        section, _, rest = key.removeprefix(prefix).partition(".")
        if not prefix or section not in _SECTIONS or not rest or not isinstance(value, str):
            faults.append(Fault(key, "is no key of a specification", _KNOWN))
        elif section == "attr":
            found.setdefault("attributes", {})[rest.lower()] = value
        elif section == "application":
            name, _, attribute = rest.partition(".attr.")
            if name == application and attribute:
                found.setdefault("attributes", {})[attribute.lower()] = value
            else:
                remedy = f"write `application.{application}.attr.ATTRIBUTE`, or rename the file"
                faults.append(Fault(key, f"is no attribute of application `{application}`", remedy))
        else:
            name, _, inner = rest.partition(".")
            entry: dict[str, Any] = found.setdefault(_SECTIONS[section], {}).setdefault(name, {})
            put = _put_operator if section == "operator" else _put_stream
            if not put(entry, inner, value):
                faults.append(Fault(key, "is no key of a specification", _KNOWN))
    found |= _of_application(found.pop("attributes", {}), faults)
    return found, True, faults


def _of_application(attributes: Document, faults: list[Fault]) -> Document:
    """The attributes of the application in our form; affinity rules are a section of their own."""
    given = attributes.pop(_RULES, None)
    found: Document = {"attributes": attributes} if attributes else {}
    if given is None:
        return found
    try:
        rules = (json.loads(given) if isinstance(given, str) else given)["affinityRules"]
        found["affinity"] = [{_RULE_KEYS.get(key, key): rule[key] for key in rule} for rule in rules]
    except (ValueError, TypeError, LookupError, RecursionError):
        faults.append(Fault(_RULES, "is no set of rules", 'give `{"affinityRules": [{"type": ...}]}`'))
    return found


def _put_operator(entry: dict[str, Any], key: str, value: str) -> bool:
    """One key of an operator; False if there is none of this form."""
    kind, _, name = key.partition(".")
    if key in {"classname", "class"}:
        entry["class"] = value
    elif kind == "attr" and name:
        entry.setdefault("attributes", {})[name.lower()] = value
    elif kind == "prop" and name:
        entry.setdefault("properties", {})[name] = value
    elif kind and not name:
        entry.setdefault("properties", {})[kind] = value
    else:
        return False
    return True


def _put_stream(entry: dict[str, Any], key: str, value: str) -> bool:
    if key == "sinks":
        entry["to"] = [sink.strip() for sink in value.split(",") if sink.strip()]
    elif key in {"source", "locality"}:
        entry["from" if key == "source" else key] = value.strip()
    else:
        return False
    return True


def _attributes(given: Document) -> Document:
    return {name.lower(): value for name, value in given.items()}


_LONGEST_LINE = 20_000


def read_pairs(text: str) -> dict[str, str]:
    """Keys and values of a text of properties. Raises FormError for a key that is there twice."""
    _check_lines(text)
    found: dict[str, str] = {}
    line = 1
    try:
        for element in javaproperties.parse(text):
            if isinstance(element, javaproperties.KeyValue):
                if element.key in found:
                    raise FormError(f"the key `{element.key}` is there twice", "keep one of them", line)
                found[element.key] = element.value
            line += max(1, element.source.count("\n"))
    except javaproperties.InvalidUEscapeError as error:
        raise FormError(
            f"`{error.escape}` is no character", "write `\\uXXXX` with four digits", line
        ) from None
    return found


def _check_lines(text: str) -> None:
    """Refuse lines that would take long to read. Raises FormError."""
    length = 0
    for number, line in enumerate(text.split("\n"), 1):
        length += len(line)
        if length > _LONGEST_LINE:
            raise FormError(
                f"a line, with those that continue it, has more than {_LONGEST_LINE:,} characters",
                "write a shorter value",
                number,
            )
        if not line.endswith("\\"):
            length = 0
