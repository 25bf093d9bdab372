"""What talks to a gateway over HTTP."""
