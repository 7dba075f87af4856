"""The slots of a run, on the driver: asked for, kept, replaced."""
