"""Programs that do the least possible work; figures are compared with them."""
