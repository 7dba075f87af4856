"""Benchmarks: Ridgeline beside its alternatives in one invocation, on the same data (docs/benchmarks.md)."""
