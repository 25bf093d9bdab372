"""Health check of the API image: whether the API of this container answers."""

import urllib.request

from app.settings import Settings

urllib.request.urlopen(f"http://127.0.0.1:{Settings.from_environment().port}/healthz", timeout=3).close()
