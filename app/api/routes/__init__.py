"""One module per resource: each route reads its input, calls a use case and shapes the answer."""
