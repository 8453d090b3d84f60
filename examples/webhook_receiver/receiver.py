"""A receiver of Onbeat's callbacks that needs nothing but Python. Run it: WEBHOOK_KEY=whsec_… python receiver.py"""

import base64
import hashlib
import hmac
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ["WEBHOOK_KEY"].removeprefix("whsec_"))


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        id, sent = self.headers["webhook-id"], self.headers["webhook-timestamp"]
        digest = hmac.digest(KEY, f"{id}.{sent}.".encode() + body, hashlib.sha256)
        wanted = f"v1,{base64.b64encode(digest).decode()}"
        given = self.headers["webhook-signature"].split(" ")
        is_genuine = any(hmac.compare_digest(wanted, one) for one in given) and abs(time.time() - int(sent)) < 300
        self.send_response(204 if is_genuine else 401)  # here: do the work, once for each webhook-id
        self.end_headers()


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver).serve_forever()
