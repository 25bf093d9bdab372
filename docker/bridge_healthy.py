"""Health check of the bridge image: whether the bridge of this container runs, on the default port of its file."""

import urllib.request

from mirrorgate_bridge.settings_file import DEFAULT_HEALTH_PORT

urllib.request.urlopen(f"http://127.0.0.1:{DEFAULT_HEALTH_PORT}/healthz", timeout=3).close()
