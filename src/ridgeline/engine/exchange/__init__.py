"""Batches on their way from one container to another."""
