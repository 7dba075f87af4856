"""Applications by name, on this machine and in the store of their checkpoints: start, see and end them."""
