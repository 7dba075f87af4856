"""Benchmarks: Ridgeline beside what one would use in its place, in the same invocation and on the same data; see docs/benchmarks.md."""
