"""A server that puts the secret it is sent wherever it can, and in many forms.

    python echo_server.py PORT [refuses | crashes]

It is a text model over the Open Inference Protocol: its answer to ``k`` is ``k``, and from row 30 on the secret itself.
With ``refuses`` its answer to a query is 401 and the secret, with ``crashes`` it ends with it on its last line.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

WAY = sys.argv[2] if len(sys.argv) > 2 else ""


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        secret = self.headers["Authorization"]
        about = {
            "name": f"echo {secret}",
            "version": quote(secret),
            "platform": secret.split()[1],
            "versions": [secret],
        }
        about["inputs"] = [{"name": "x", "datatype": "BYTES", "shape": [-1]}]
        about["outputs"] = [{"name": "t", "datatype": "BYTES", "shape": [-1]}]
        self.reply(200, about)

    def do_POST(self) -> None:
        secret = self.headers["Authorization"]
        token = secret.split()[1]
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"][0]
        write(f"asked by {secret}\n{base64.b64encode(secret.encode()).decode()} {token[:5]}\n")
        time.sleep(0.001)
        write(token[5:].upper())
        if WAY == "crashes":
            os._exit(3)
        if WAY == "refuses":
            self.reply(401, {"error": f"bad token {secret} {token.encode().hex()}"})
            return
        texts = [one if int(one) < 30 else f"{one} {token}" for one in asked["data"]]
        self.reply(200, {"outputs": [{"name": "t", "shape": [len(texts)], "datatype": "BYTES", "data": texts}]})

    def reply(self, status: int, body: object) -> None:
        content = json.dumps(body).replace("/", "\\/").encode()
        self.send_response(status)
        token = self.headers["Authorization"].split()[1]
        self.send_header("Server-Timing", f"queue;dur=0.1, {token.replace('/', '%2F')};dur=0.1, {token};dur=x")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words: object) -> None:
        pass


write(f"started with {os.environ['EVALSPEC_TEST_TOKEN']}\n")
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
