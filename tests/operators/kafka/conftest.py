"""A real broker for the tests of this folder."""

from support.services.fixtures import kafka

__all__ = ["kafka"]
