"""A bare FastAPI endpoint, `python -m benchmarks.limits.bare_fastapi`: it reads the body and answers 202.

It shows what FastAPI costs without authentication, limits, logs and metrics. It prints its port, and ends when its
parent does.
"""

from fastapi import FastAPI, Request

from benchmarks.limits.raw_asgi import run

app = FastAPI()


@app.post("/v1/changes/arcion", status_code=202)
@app.post("/v1/changes/replicate", status_code=202)
async def post_changes(request: Request) -> dict[str, str]:
    """Read the whole body, as one value, and answer 202."""
    await request.body()
    return {"status": "ok"}


if __name__ == "__main__":
    run(app)
