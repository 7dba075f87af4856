"""Options of a run in configuration: `run.master`, `run.conf.spark.executor.memory`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ridgeline.api.errors import Fault, did_you_mean
from ridgeline.plan.spec.values import ValueFaultError
from ridgeline.settings.environment import read_run_variables
from ridgeline.settings.layers import Layer, Setting, read_layers
from ridgeline.settings.values import configured_value

CONF = "conf"


@dataclass(slots=True, eq=False)
class RunOptions:
    """What layers say of a run, by option; `conf`: settings of Spark.

    `settings`: all that was said of each, what counts first.
    """

    options: dict[str, Any] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    settings: dict[str, list[Setting]] = field(default_factory=dict)


def run_options(
    layers: Sequence[Layer], known: Iterable[str], environment: Mapping[str, str], faults: list[Fault]
) -> RunOptions:
    """The options of a run in layers, the lowest first; `known`: all that there are. Adds faults."""
    found = RunOptions()
    names = set(known)
    layers = [read_run_variables(layer) if layer.variables else layer for layer in layers]
    for setting in read_layers(layers, []):
        if setting.section == "run":
            key = setting.path
            name = key.partition(".")[0]
            if (name == CONF and key != CONF) or key in names - {CONF}:
                found.settings.setdefault(key, []).insert(0, setting)
            elif name == CONF:
                faults.append(setting.fault("`run.conf` names no setting", "write `run.conf.spark....`"))
            else:
                what = f"`{key}` is no option of a run that can be configured"
                faults.append(setting.fault(what, did_you_mean(key, names)))
    for key, (first, *_) in found.settings.items():
        try:
            value = configured_value(first.value, environment)
        except ValueFaultError as error:
            faults.append(first.fault(error.what, error.remedy))
            continue
        if key.startswith(f"{CONF}."):
            found.conf[key.removeprefix(f"{CONF}.")] = _text(value)
        else:
            found.options[key] = value
    return found


def _text(value: object) -> str:
    """A setting of Spark as a text."""
    return str(value).lower() if isinstance(value, bool) else str(value)
