"""Nexmark: queries over the events of an online auction, as steps of streams."""

from benchmarks.nexmark.benchmark import BENCHMARKS

__all__ = ["BENCHMARKS"]
