"""The shared parts of inputs that read databases."""
