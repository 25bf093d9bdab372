"""Plain ASGI middleware around the application: bounds, log lines and metrics of every request."""
