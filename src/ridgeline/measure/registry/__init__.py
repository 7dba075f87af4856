"""The metrics of the registry by subject; `ridgeline.measure.metrics` joins them."""
