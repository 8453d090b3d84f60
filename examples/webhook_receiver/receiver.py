"""A receiver of callbacks that needs nothing but Python: WEBHOOK_KEY=whsec_… python3 receiver.py"""

import base64
import hmac
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = base64.b64decode(os.environ["WEBHOOK_KEY"].removeprefix("whsec_"))


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        id, sent = self.headers["webhook-id"], self.headers["webhook-timestamp"] or "0"
        digest = hmac.digest(KEY, f"{id}.{sent}.".encode() + body, "sha256")
        wanted = "v1," + base64.b64encode(digest).decode()
        given = (self.headers["webhook-signature"] or "").split()
        is_genuine = any(hmac.compare_digest(wanted, one) for one in given) and abs(time.time() - int(sent)) < 300
        later = self.headers["onbeat-completion-url"]
        self.send_response(401 if not is_genuine else 202 if later else 204)  # do the work, once for each webhook-id
        self.end_headers()
        print("genuine" if is_genuine else "not genuine", body.decode(), later or "", flush=True)


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver).serve_forever()
