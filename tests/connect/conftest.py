"""Real servers, one of a kind for all tests of a process."""

from support.services.fixtures import mariadb, postgres, seaweedfs

__all__ = ["mariadb", "postgres", "seaweedfs"]
