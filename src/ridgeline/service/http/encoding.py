"""JSON for others to read."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping


def to_json(value: object) -> bytes:
    """Compact JSON in UTF-8, on one line.

    What is no finite number becomes null: JSON has no NaN and no Infinity.
    """
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="replace")


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, (list, tuple)) else value
