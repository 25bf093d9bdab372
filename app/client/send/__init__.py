"""Sending files of changes to a gateway over HTTP: requests in order, retries, progress and the way to resume."""
