"""Keys and audit."""
