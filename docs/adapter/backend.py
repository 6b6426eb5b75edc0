"""A bank's back end in front of the scheme adapter. Usage: backend.py PORT"""

import json
import sys
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

ACCOUNTS = {"222": {"firstName": "Neema", "lastName": "Ali", "balance": Decimal(0)}}
CREDITED = {}  # transferId: the answer that was given
LOCK = Lock()  # one change of balances at a time


class Bank(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        account = ACCOUNTS.get(self.path.split("/")[-1])
        if not self.path.startswith("/parties/MSISDN/") or account is None:
            return self.answer(404, {"statusCode": "3204", "message": "Party not found"})
        first, last = account["firstName"], account["lastName"]
        self.answer(200, {"idType": "MSISDN", "idValue": self.path.split("/")[-1],
                          "displayName": f"{first} {last}", "firstName": first, "lastName": last})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/quoterequests":  # the bank charges nothing
            return self.answer(200, {
                "quoteId": body["quoteId"], "transactionId": body["transactionId"],
                "transferAmount": body["amount"], "transferAmountCurrency": body["currency"]})
        with LOCK:
            if body["transferId"] not in CREDITED:  # the same transfer may come again
                ACCOUNTS[body["to"]["idValue"]]["balance"] += Decimal(body["amount"])
                CREDITED[body["transferId"]] = {"homeTransactionId": f"credit-{len(CREDITED)}"}
            credit = CREDITED[body["transferId"]]
        self.answer(200, credit)

    def do_PUT(self):  # the final notice: reverse the credit if the transfer was aborted
        notice = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with LOCK:
            if notice["currentState"] == "ABORTED" and CREDITED.pop(notice["transferId"], None):
                prepare = notice["prepare"]["body"]
                payee = notice["quote"]["internalRequest"]["to"]["idValue"]
                ACCOUNTS[payee]["balance"] -= Decimal(prepare["amount"]["amount"])
        self.answer(200, {})

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Bank)
print(f"ready on {server.server_address[1]}", flush=True)
server.serve_forever()
