"""Kubernetes by the client that Spark has."""
