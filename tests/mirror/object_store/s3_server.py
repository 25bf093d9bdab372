"""moto as an S3 service, in a process of its own: deltalake holds the interpreter's lock during some requests.

Print the port and the keys that the bucket `guarded` accepts, then serve. Any keys are good for the bucket `lake`.
"""

import json
import logging
import sys
from collections.abc import Callable, Iterable
from typing import Any

from moto import settings
from moto.iam.models import iam_backends
from moto.s3.models import s3_backends
from moto.server import create_backend_app
from werkzeug.serving import make_server

_ACCOUNT = "123456789012"
_ALL = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


def _keys() -> dict[str, str]:
    identities = iam_backends[_ACCOUNT]["aws"]
    identities.create_user("us-east-1", "mirror")
    identities.put_user_policy("mirror", "all", json.dumps(_ALL))
    key = identities.create_access_key("mirror")
    return {"aws_access_key_id": key.access_key_id, "aws_secret_access_key": key.secret_access_key}


def _checking_signatures(service: Callable[..., Iterable[bytes]]) -> Callable[..., Iterable[bytes]]:
    """Return the service with signatures checked in one bucket only: moto takes those of blanks for wrong."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        is_guarded = environ["PATH_INFO"].startswith("/guarded")
        settings.INITIAL_NO_AUTH_ACTION_COUNT = 0 if is_guarded else float("inf")
        return service(environ, start)

    return answer


def main() -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    for bucket in ("lake", "guarded"):
        s3_backends[_ACCOUNT]["aws"].create_bucket(bucket, "us-east-1")
    server = make_server("127.0.0.1", 0, _checking_signatures(create_backend_app("s3")), threaded=True)
    sys.stdout.write(json.dumps({"port": server.port} | _keys()) + "\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
