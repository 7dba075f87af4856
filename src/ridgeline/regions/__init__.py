"""The regions of an application, which decoupled streams make: planned, run, and seen as one."""
