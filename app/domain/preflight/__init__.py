"""Judgements of what checks and probes found."""
