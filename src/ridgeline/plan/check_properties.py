"""Check the properties of operators and modules, with what was given from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ridgeline.api.operator import operator_type
from ridgeline.plan.draft import Draft
from ridgeline.plan.entries import NoEntryError
from ridgeline.plan.properties import decoded, decoded_entry, property_faults


def check_properties(draft: Draft, owner: str, component: Any, overrides: Mapping[str, object]) -> None:
    """Apply overrides to an operator or a module of the draft, called `owner`; validate its properties."""
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
            draft.fault(f"{owner}.{name}", error.what, error.remedy)
    for name, what, remedy in property_faults(component):
        option = f" or with `-D {owner}.{name}=...`" if name in known else ""
        draft.fault(f"{owner}.{name}" if name else owner, what, f"{remedy}{option}")
