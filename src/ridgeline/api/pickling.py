"""Pickle for values of users' classes: plain pickle first, cloudpickle for what cannot be imported by name."""

from __future__ import annotations

import pickle
from typing import Any

import cloudpickle

loads = pickle.loads


def dumps(value: Any) -> bytes:
    """Bytes that `loads` turns back.

    Raises what cloudpickle raises for a value that cannot be pickled at all.
    """
    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return bytes(cloudpickle.dumps(value, 5))
