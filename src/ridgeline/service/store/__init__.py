"""Applications by name in the store of their checkpoints, for commands on any host that reaches it."""
