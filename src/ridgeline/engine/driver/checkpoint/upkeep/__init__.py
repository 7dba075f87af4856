"""Looks after checkpoint folders without running them: says, checks and copies them, and exports states."""
