"""How old records are, as histograms."""
