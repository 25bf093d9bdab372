"""The OpenAPI contract, and the pages that show it.

FastAPI derives the contract from the routes. `document` has the application class that completes it: tags, servers,
problem details and headers of every answer, and schemas that client generators can read. It also serves Swagger UI and
Redoc. `message_bodies` describes the bodies of change requests, which FastAPI does not read, with the messages and
examples of `messages.yaml`. `python -m tools.openapi` writes the contract to openapi/.
"""
