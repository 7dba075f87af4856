"""An S3 in memory (moto): `python moto_server.py PORT LOG`; each request is a line of the log."""

import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class _Quiet(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        """Print nothing."""


def main(port: int, log: Path) -> None:
    """Serve for ever.

    It knows S3 only. To look for the right service takes half of the time of moto's own server.
    """
    backend = create_backend_app("s3")
    conditional = threading.Lock()  # S3 checks and writes as one step; moto in two, in several threads

    def noted(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with log.open("a") as file:
            file.write(
                f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}\n"
            )
        if environ.keys().isdisjoint({"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"}):
            return backend(environ, start_response)
        with conditional:
            return backend(environ, start_response)

    make_server("127.0.0.1", port, noted, threaded=True, request_handler=_Quiet).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
