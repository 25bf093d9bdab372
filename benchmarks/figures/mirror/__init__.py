"""The figures of the Delta mirror: inserts, freshness, folding changes, and many tables."""
