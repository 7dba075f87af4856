"""An S3 (moto) on a free port: `python -m support.s3.server LOG` prints the port, logs each request."""

import sys
import threading
from pathlib import Path

from moto.server import create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class _Quiet(WSGIRequestHandler):
    def log(self, *_):
        pass


def s3_server(note=lambda _line: None):
    """A server on a free `port` of this host: `serve_forever` answers; `note` gets a line for each request.

    It knows S3 only. To look for the right service takes half of the time of moto's own server.
    """
    backend = create_backend_app("s3")
    conditional = threading.Lock()  # S3 checks and writes as one step; moto in two, in several threads

    def noted(environ, start_response):
        note(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}\n")
        if "HTTP_IF_NONE_MATCH" not in environ:
            return backend(environ, start_response)
        with conditional:
            return backend(environ, start_response)

    return make_server("127.0.0.1", 0, noted, threaded=True, request_handler=_Quiet)


def serve(log):
    """Serve for ever."""

    def note(line):
        with log.open("a") as file:
            file.write(line)

    server = s3_server(note)
    print(server.port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
