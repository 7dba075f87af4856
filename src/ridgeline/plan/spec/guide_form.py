"""The forms of Apex's guide: JSON with lists, and Java properties, `apex.operator.NAME.classname`.

They become a document in our form. Classes are import paths of Python; attributes have Apex's names in any
case, or ours. All values of properties are texts.
"""

from __future__ import annotations

import json
from typing import Any

import javaproperties

from ridgeline.api.errors import Faults
from ridgeline.plan.spec.form import Document, FormError

_PREFIXES = ("apex", "dt")
_OURS = {"source": "from", "sinks": "to"}
"""Our keys of streams, by the guide's."""
_RULES = "affinity_rules_set"
_RULE_KEYS = {"operatorRegex": "pattern", "operatorsList": "operators", "relaxLocality": "relax"}
_KNOWN = (
    "the guide's keys are `operator.NAME.classname`, `operator.NAME.PROPERTY`, `stream.NAME.source`, `.sinks`"
)


def from_guide(document: Document, name: str, faults: Faults) -> tuple[Document, bool]:
    """The document in our form, and whether its values are texts; faults for what has no place in our form.

    `name`: of the application, which keys with `application.NAME.` must have.
    """
    if any(key.partition(".")[0] in _PREFIXES for key in document):
        return _from_properties(document, name, faults), True
    if any(isinstance(document.get(section), list) for section in ("operators", "streams")):
        return _from_lists(document, faults), False
    return document, False


def _from_lists(document: Document, faults: Faults) -> Document:
    """`operators` and `streams` as lists of objects with names; other keys are our form's."""
    found = dict(document)
    for section in ("operators", "streams"):
        found[section] = _named(section, document.get(section, []), faults)
    if "name" in found:
        found["application"] = found.pop("name")
    if isinstance(found.get("attributes"), dict):
        found |= _of_application(_lowered(found.pop("attributes")), faults)
    return found


def _named(section: str, given: object, faults: Faults) -> Document:
    """A list of objects with names as a mapping."""
    found: Document = {}
    if not isinstance(given, list):
        faults.add(section, "is no list, as the rest of the file would have it", "give a list")
        return found
    for index, entry in enumerate(given):
        where = f"{section}.{index}"
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            faults.add(where, "has no `name`", 'give it: `{"name": ...}`')
            continue
        if name in found:
            faults.add(where, f"`{name}` is there twice", "give each a name of its own")
        known = {key: value for key, value in entry.items() if (key, value) != ("locality", None)}
        del known["name"]
        for theirs, ours in _OURS.items():
            if theirs in known:
                known[ours] = _ends(known.pop(theirs))
        if "attributes" in known:
            known["attributes"] = _lowered(known["attributes"])
        found[name] = known
    return found


def _ends(given: object) -> object:
    """A port, or several of them, as `operator.port`; anything else as it is."""
    if isinstance(given, list):
        return list(map(_ends, given))
    if isinstance(given, dict) and set(given) == {"operatorName", "portName"}:
        return f"{given['operatorName']}.{given['portName']}"
    return given


def _from_properties(pairs: Document, application: str, faults: Faults) -> Document:
    """Keys with `apex.` or `dt.` before them; all values are texts."""
    operators: dict[str, Document] = {}
    streams: dict[str, Document] = {}
    attributes: Document = {}
    for key, value in pairs.items():
        prefix, *words = key.split(".")
        match words if prefix in _PREFIXES and isinstance(value, str) and all(words) else []:
            case ["operator", name, "classname" | "class"]:
                operators.setdefault(name, {})["class"] = value
            case ["operator", name, "attr", *path] if path:
                given = operators.setdefault(name, {}).setdefault("attributes", {})
                given[".".join(path).lower()] = value
            case ["operator", name, "prop", *path] if path:
                operators.setdefault(name, {}).setdefault("properties", {})[".".join(path)] = value
            case ["operator", name, known]:
                operators.setdefault(name, {}).setdefault("properties", {})[known] = value
            case ["stream", name, "sinks"]:
                sinks = [sink.strip() for sink in value.split(",") if sink.strip()]
                streams.setdefault(name, {})["to"] = sinks
            case ["stream", name, "source" | "locality" as known]:
                streams.setdefault(name, {})["from" if known == "source" else known] = value.strip()
            case ["application", *name, "attr", known] if ".".join(name) == application:
                attributes[known.lower()] = value
            case ["application", *_]:
                remedy = f"write `application.{application}.attr.ATTRIBUTE`, or rename the file"
                faults.add(key, f"is no attribute of application `{application}`", remedy)
            case ["attr", *path] if path:
                attributes[".".join(path).lower()] = value
            case _:
                faults.add(key, "is no key of a specification", _KNOWN)
    return {"operators": operators, "streams": streams, **_of_application(attributes, faults)}


def _of_application(attributes: Document, faults: Faults) -> Document:
    """The attributes of the application in our form; affinity rules are a section of their own."""
    given = attributes.pop(_RULES, None)
    found: Document = {"attributes": attributes} if attributes else {}
    if given is None:
        return found
    try:
        rules = (json.loads(given) if isinstance(given, str) else given)["affinityRules"]
        found["affinity"] = [{_RULE_KEYS.get(key, key): rule[key] for key in rule} for rule in rules]
    except (ValueError, TypeError, LookupError, RecursionError):
        faults.add(_RULES, "is no set of rules", 'give `{"affinityRules": [{"type": ...}]}`')
    return found


def _lowered(given: Any) -> Any:
    """Attributes by our names; what is none is found as the document is checked."""
    return {name.lower(): value for name, value in given.items()} if isinstance(given, dict) else given


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
        what = f"`{error.escape}` is no character"
        raise FormError(what, "write `\\uXXXX` with four digits", line) from None
    return found


def _check_lines(text: str) -> None:
    """Refuse lines that would take long to read. Raises FormError."""
    length = 0
    for number, line in enumerate(text.split("\n"), 1):
        length += len(line)
        if length > _LONGEST_LINE:
            what = f"a line, with those that continue it, has more than {_LONGEST_LINE:,} characters"
            raise FormError(what, "write a shorter value", number)
        if not line.endswith("\\"):
            length = 0
