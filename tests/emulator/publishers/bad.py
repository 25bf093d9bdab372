"""A careless publisher: writes under final names, heeds no answer, remembers only its next number."""

import http.client
import os
import urllib.parse
from contextlib import suppress
from pathlib import Path

STEP, COUNTER = os.environ["MIRRORGATE_STEP"], Path(os.environ["MIRRORGATE_STATE"]) / "next"
HOST = urllib.parse.urlsplit(os.environ["MIRRORGATE_STORAGE_ENDPOINT"]).netloc
ZONE = f"/{os.environ['MIRRORGATE_FABRIC_WORKSPACE']}/{os.environ['MIRRORGATE_FABRIC_DATABASE']}/Files/LandingZone"
HEADERS = {"Authorization": f"Bearer {os.environ['MIRRORGATE_TOKEN']}", "x-ms-version": "2023-11-03"}


def call(method: str, path: str, query: str, body: bytes = b"") -> None:
    with suppress(OSError):
        connection = http.client.HTTPConnection(HOST, timeout=30)
        connection.request(method, f"{ZONE}/{path}{query}", body, {"Content-Length": str(len(body)), **HEADERS})
        connection.getresponse().read()


def upload(path: str, content: bytes) -> None:
    call("PUT", path, "?resource=file")
    call("PATCH", path, "?action=append&position=0", content)
    call("PATCH", path, f"?action=flush&position={len(content)}")


if STEP == "drop":
    call("DELETE", "orders", "?recursive=true")
    COUNTER.unlink()
for file in sorted(Path(os.environ["FILES"]).glob(f"{STEP}-*")):
    number = int(COUNTER.read_text()) if COUNTER.exists() else 1
    COUNTER.write_text(str(number + 1))
    if number == 1:
        upload("orders/_metadata.json", b'{"keyColumns": ["id"]}')
    upload(f"orders/{number:020d}.parquet", file.read_bytes())
