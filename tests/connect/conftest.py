"""Real servers, one of a kind for all tests of a process."""

from ridgeline.testing.services.fixtures import moto, postgres, seaweedfs

__all__ = ["moto", "postgres", "seaweedfs"]
