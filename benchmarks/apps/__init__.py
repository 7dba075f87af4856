"""Applications that benchmarks launch by their command."""
