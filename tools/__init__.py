"""Programs for working on Mirrorgate; no part of what is installed."""
