"""Callers: rights, keys, token claims, quotas."""
