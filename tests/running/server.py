"""A server for the tests of whole runs: the sum of each row over the Open Inference Protocol, and how it misbehaves.

    python server.py PORT [WAY]

WAY: ``drifts`` (answers otherwise after 4 requests), ``dies`` (ends after 20 requests), ``never`` (is never ready),
``ends`` (ends at once, with a last word), ``slow`` (takes 4 ms), ``remembers`` (the same, but not for what it was
asked before), ``errs`` (one answer in 5 is 500), ``drops`` (it closes the connection instead of every fifth answer).
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WAY = sys.argv[2] if len(sys.argv) > 2 else ""
SEEN: list[int] = []
KNOWN: set[bytes] = set()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        status = 503 if WAY == "never" else 200
        self.reply(status, {"name": "server.py", "version": "9"} if self.path == "/v2" else {})

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        tensor = json.loads(asked)["inputs"][0]
        # Requests are numbered, so only what is asked about can be remembered.
        key = json.dumps(tensor).encode()
        if WAY == "slow" or (WAY == "remembers" and key not in KNOWN):
            time.sleep(0.004)
        KNOWN.add(key)
        SEEN.append(1)
        if WAY in ("errs", "drops") and len(SEEN) % 5 == 0:
            self.close_connection = WAY == "drops"
            return self.reply(500, {"error": "now and then"}) if WAY == "errs" else None
        if WAY == "dies" and len(SEEN) > 20:
            os._exit(3)
        rows, width = tensor["shape"]
        sums = [sum(tensor["data"][row * width : (row + 1) * width]) for row in range(rows)]
        if WAY == "drifts" and len(SEEN) > 4:
            sums = [-one for one in sums]
        self.reply(200, {"outputs": [{"name": "s", "shape": [rows], "datatype": "FP64", "data": sums}]})

    def reply(self, status: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        pass


if WAY == "ends":
    sys.exit("the weights are gone")
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
