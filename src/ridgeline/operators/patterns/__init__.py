"""Patterns in the records of a key, which `Detect` looks for: one file for each, or for two that are near.

Here is what patterns of one's own are made of.
"""

from ridgeline.operators.patterns.pattern import Deadline, Found, NumberPattern, Pattern

__all__ = ["Deadline", "Found", "NumberPattern", "Pattern"]
