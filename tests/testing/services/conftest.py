"""The services of this folder's tests: one of a kind for each process."""

from support.services.fixtures import kafka, mariadb, postgres, registry, seaweedfs

__all__ = ["kafka", "mariadb", "postgres", "registry", "seaweedfs"]
