"""Values of a configuration: plain data, and texts of the environment."""

from __future__ import annotations

from collections.abc import Mapping

from ridgeline.plan.spec.values import ENVIRONMENT, IMPORT, ValueFaultError, read_value


def configured_value(value: object, environment: Mapping[str, str]) -> object:
    """A value with its marks read; code may not be named. Raises ValueFaultError."""
    if isinstance(value, dict) and IMPORT in value:
        msg = f"`{IMPORT}` names code, which a configuration may not"
        raise ValueFaultError(msg, f"name it in the specification; here `{ENVIRONMENT}` is read")
    if isinstance(value, list):
        return [configured_value(part, environment) for part in value]
    return read_value(value, environment)
