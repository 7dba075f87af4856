"""Events as JSON for event logs, and back."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from ridgeline.measure import slot_events  # noqa: F401  its events are known by their names, too
from ridgeline.measure.events import RunEvent


def to_json(event: object) -> str:
    """An event as JSON that Python reads, also numbers that are not finite; `event` names its type."""
    kind: Any = type(event)
    try:
        fields = _adapter(kind).dump_json((event,), warnings=False).decode()
    except PydanticSerializationError:  # half a pair of surrogates, as a user's error may have
        return json.dumps(to_dict(event))
    return f'{{"event":"{kind.__name__}",{fields[2:-1]}'


def to_dict(event: object) -> dict[str, Any]:
    """An event as plain data for JSON; `event` names its type."""
    kind: Any = type(event)
    [fields] = _adapter(kind).dump_python((event,), mode="json", warnings=False)
    return {"event": kind.__name__, **fields}


def from_dict(data: Mapping[str, Any]) -> RunEvent:
    """The event of plain data.

    Raises ValueError naming what does not fit; fields that are unknown here are ignored, for newer logs.
    """
    name = data.get("event")
    kind = RunEvent.kinds.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"`{name}` is no event of this version; the one that wrote it can read the log")
    try:
        return cast("RunEvent", _adapter(kind).validate_python((data,))[0])
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, (name, *fault["loc"][1:])))
        raise ValueError(f"`{where}`: {fault['msg']}; got {fault['input']!r:.40}") from None


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    """Reads and writes a tuple of one event; in a tuple, a dataclass has this configuration."""
    return TypeAdapter(tuple[kind], config=ConfigDict(ser_json_inf_nan="constants"))
