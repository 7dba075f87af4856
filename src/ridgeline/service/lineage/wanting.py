"""Whether a run sends OpenLineage events."""

from __future__ import annotations

from collections.abc import Mapping

_VARIABLES = (
    "OPENLINEAGE_URL",
    "OPENLINEAGE_CONFIG",
    "OPENLINEAGE__TRANSPORT__TYPE",
    "OPENLINEAGE__TRANSPORT",
)


def wants_lineage(target: str | None, environment: Mapping[str, str]) -> bool:
    """Whether a run sends events: an option or one of OpenLineage's variables says where to."""
    if environment.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    return target is not None or any(environment.get(name) for name in _VARIABLES)
