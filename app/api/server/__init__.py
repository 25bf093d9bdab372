"""What lies between uvicorn and the routes: the HTTP protocol, problem details, parameters."""
