"""The figures that listeners, policies, promises and advice decide by."""
