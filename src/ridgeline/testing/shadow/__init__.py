"""A version of an application that runs beside the one that is at work, on the same windows."""
