"""TLS of the web service: its certificate, its handshakes, and how our own clients call it."""
