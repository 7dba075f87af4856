"""Real servers, one of a kind for all tests of a process."""

from ridgeline.testing.services.fixtures import postgres

__all__ = ["postgres"]
