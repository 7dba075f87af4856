"""Pickling of values of users' classes: by pickle, or by cloudpickle if a class cannot be imported."""

from __future__ import annotations

import pickle

import cloudpickle

loads = pickle.loads


def dumps(value: object) -> bytes:
    """Pickle a value, for `loads`.

    Raises what cloudpickle raises if the value cannot be pickled.
    """
    try:
        return pickle.dumps(value, 5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return bytes(cloudpickle.dumps(value, 5))
