"""A real identity server on loopback, a client that is not ours, and sidecars that trust the one and serve the other."""
