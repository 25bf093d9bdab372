"""Changes to landing rows."""
