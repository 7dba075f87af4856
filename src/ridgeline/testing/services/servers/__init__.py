"""The services, a file each."""
