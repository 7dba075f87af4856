"""Variables of the environment: configuration (`RIDGELINE__operator__sum__partitions=2`) and others."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ridgeline.api.errors import nearest
from ridgeline.settings.layers import Layer

PREFIX = "RIDGELINE__"
"""With what variables of the environment begin that are configuration."""
ENVIRONMENT = "environment"
_OURS = "RIDGELINE_"
_READ = (
    "CA",
    "CLASS_ARCHIVE",
    "DEBUG",
    "HOME",
    "LOG",
    "NO_CONFIG",
    "PRELOAD",
    "READ_TOKEN",
    "SERVICES",
    "SERVICES_REQUIRED",
    "STORE",
    "TOKEN",
    "TRUST",
)
"""The variables `RIDGELINE_...` that are read, beside those that are configuration."""


def unread_variables(environment: Collection[str]) -> list[str]:
    """A warning for each variable `RIDGELINE_...` that is not read. `environment`: names of variables."""
    # Kubernetes sets these for a service called `ridgeline` or `ridgeline-...`.
    services = [name.removesuffix("SERVICE_HOST") for name in environment if name.endswith("_SERVICE_HOST")]
    passed_over = (PREFIX, *(f"{service}{what}" for service in services for what in ("PORT", "SERVICE_")))
    warnings = []
    for name in sorted(environment):
        rest = name.removeprefix(_OURS)
        if not name.startswith(_OURS) or name.startswith(passed_over) or rest in _READ:
            continue
        close = nearest(rest, _READ)  # without the prefix, by which all of them are alike
        listed = ", ".join(f"`{_OURS}{one}`" for one in _READ)
        hint = (
            f"did you mean `{_OURS}{close}`?"
            if close
            else f"configuration begins with `{PREFIX}`; known beside it are {listed}"
        )
        warnings.append(f"the environment variable `{name}` is not read; {hint}")
    return warnings


def variable_layers(environment: Mapping[str, str]) -> list[Layer]:
    """The layer of configuration in variables, if there are any: a key has `__` in the place of its dots."""
    keys = {
        name.removeprefix(PREFIX).replace("__", "."): name for name in environment if name.startswith(PREFIX)
    }
    values = {key: environment[name] for key, name in keys.items()}
    return [Layer(ENVIRONMENT, PREFIX, values, places=keys)] if keys else []
