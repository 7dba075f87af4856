"""Which operators share a container or a host, and which do not."""
