"""On the driver: runs an application window by window, and keeps its checkpoint."""
