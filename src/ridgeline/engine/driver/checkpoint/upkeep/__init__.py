"""Looks after checkpoint folders without running them: says, checks, copies, moves and cleans them."""
