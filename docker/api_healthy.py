"""Health check of the API image: whether the API of this container serves; `/readyz` is for load balancers."""

import urllib.request

from app.settings import Settings
from mirrorgate.certificates import trusting_only

settings = Settings.from_environment()
certificate = settings.tls_certificate_file
context = None if certificate is None else trusting_only(certificate)
scheme = "http" if certificate is None else "https"
urllib.request.urlopen(f"{scheme}://127.0.0.1:{settings.port}/healthz", timeout=3, context=context).close()
