"""Results, their comparison, and the pages written from them."""
