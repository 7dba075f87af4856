"""Check the properties of operators and modules, with what was given from outside."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ridgeline.api.operator import operator_type
from ridgeline.plan.build.entries import NoEntryError
from ridgeline.plan.build.property_values import decoded, decoded_entry, property_faults
from ridgeline.plan.draft import Faults

_DIGITS_A_BIT = math.log10(2)


def set_properties(
    faults: Faults,
    owner: str,
    component: Any,
    overrides: Mapping[str, object],
    remedies: Mapping[str, str] = MappingProxyType({}),
) -> bool:
    """Apply overrides to an operator or a module of the draft, called `owner`; validate its properties.

    `remedies`: what to do about properties that are missing, by their names. Returns False with a fault.
    """
    known = set(operator_type(type(component)).properties) - {"context"}
    values = vars(component)
    for name, value in sorted(
        overrides.items(), key=lambda given: given[0] not in known
    ):  # entries after whole properties
        if name in known:
            values[name] = decoded(component, name, value)
            continue
        try:
            values.update([decoded_entry(component, owner, name, value)])
        except NoEntryError as error:
            faults.add(f"{owner}.{name}", error.what, error.remedy)
    found = property_faults(component, remedies)
    for name, what, remedy in found:
        option = f" or with `-D {owner}.{name}=...`" if name in known else ""
        faults.add(f"{owner}.{name}" if name else owner, what, f"{remedy}{option}")
    for name in overrides:
        if (digits := _digits_beyond(values.get(name.partition(".")[0]))) and name.partition(".")[0] in known:
            what = f"a number that is given from outside has at most 64 bits; got one of {digits} digits"
            faults.add(f"{owner}.{name}", what, "give one between -2**63 and 2**63 - 1")
    return not found


def _digits_beyond(value: object) -> int:
    """How many digits a whole number has that does not fit into 64 bits, or one within; 0: there is none."""
    if isinstance(value, (list, tuple, set)):
        return max(map(_digits_beyond, value), default=0)
    if isinstance(value, Mapping):
        return max(map(_digits_beyond, value.values()), default=0)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return int(value.bit_length() * _DIGITS_A_BIT) + 1
    return 0
