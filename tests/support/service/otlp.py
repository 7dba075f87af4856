"""A collector for OTLP over HTTP that decodes what came over the wire with OpenTelemetry's own messages."""

import http.server
import threading

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class TraceCollector(http.server.ThreadingHTTPServer):
    """Keeps the spans that it gets. Answers with `status`.

    While `gate` is not set, no request is answered.
    """

    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), _Receiver)
        self.requests = []
        self.status = 200
        self.gate = threading.Event()
        self.gate.set()
        self.asked = threading.Event()
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def spans(self):
        """All spans, with their resource's attributes."""
        return [
            (span, plain(of_resource.resource.attributes))
            for request in list(self.requests)
            for of_resource in request.resource_spans
            for scope in of_resource.scope_spans
            for span in scope.spans
        ]

    @property
    def windows(self):
        """By number of the window, its spans by name; those of equal names in lists."""
        traces = {}
        for span, _ in self.spans:
            traces.setdefault(span.trace_id, []).append(span)
        found = {}
        for spans in traces.values():
            root = next(span for span in spans if not span.parent_span_id)
            named = found.setdefault(plain(root.attributes)["ridgeline.window_id"], {"window": root})
            for span in spans:
                named.setdefault(span.name, []).append(span)
        return found

    def close(self):
        self.gate.set()
        self.shutdown()
        self.server_close()


def plain(attributes):
    """Attributes as a dictionary."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


class _Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.set()
        self.server.gate.wait()
        if self.path == "/v1/traces" and self.server.status == 200:
            self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        data = ExportTraceServiceResponse().SerializeToString()
        self.send_response(self.server.status if self.path.startswith("/v1/") else 404)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass
