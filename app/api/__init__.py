"""FastAPI lives here: requests in, use cases called, problem details out."""
