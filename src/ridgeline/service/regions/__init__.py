"""Run an application whose decoupled streams divide it into regions: each has windows of its own."""
