"""a2a-sidecar: a policy-enforcing reverse proxy in front of an unmodified A2A agent."""

__version__ = "0.1.0"
