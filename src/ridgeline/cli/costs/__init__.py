"""`ridgeline cost`: core seconds and money of a run."""
