"""Real servers, one of a kind for all tests of a process."""

from ridgeline.testing.services.fixtures import mariadb, moto, postgres, seaweedfs

__all__ = ["mariadb", "moto", "postgres", "seaweedfs"]
