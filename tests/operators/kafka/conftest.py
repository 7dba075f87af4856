"""A real broker for the tests of this folder."""

from ridgeline.testing.services.fixtures import kafka

__all__ = ["kafka"]
