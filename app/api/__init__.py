"""The HTTP API, and the only package that uses FastAPI.

A request passes uvicorn's protocol (`server`), the middleware (`middleware`, with the limits of `limits`) and reaches a
route (`routes`). The route requires a right (`auth`), parses its input (`schemas`), calls a use case in `app.ingest` or
a query in `app.staging`, and shapes the answer; errors become problem details. `gateway` holds the parts that all
routes share, `lifespan` starts and closes them, `application` puts routes and middleware together, and `openapi`
completes the contract. `scrape` collects what `/metrics` reads from the database.
"""
