"""Conformance tests of connectors: an author gives his connector, and they show what it guarantees."""
