"""The services of this folder's tests: one of a kind for each process."""

from ridgeline.testing.services.fixtures import kafka, postgres

__all__ = ["kafka", "postgres"]
