"""A bank's back end in front of the scheme adapter. Usage: backend.py PORT"""
import json, sys
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock

BALANCES = {"222": Decimal(0)}
PARTIES = {"222": {"idType": "MSISDN", "idValue": "222", "displayName": "Neema Ali",
                   "firstName": "Neema", "lastName": "Ali"}}
CREDITED = {}  # transferId: the account and the amount; None once it was aborted
LOCK = Lock()  # one change at a time

def find(path):
    account = path.split("/")[-1]
    if path.startswith("/parties/MSISDN/") and account in PARTIES:
        return 200, PARTIES[account]
    if path.startswith("/accounts/") and account in BALANCES:  # of the bank itself
        return 200, {"balance": str(BALANCES[account])}
    return 404, {"statusCode": "3204", "message": "Not found"}

def quote(body):  # the bank charges nothing
    return 200, {"quoteId": body["quoteId"], "transactionId": body["transactionId"],
                 "transferAmount": body["amount"], "transferAmountCurrency": body["currency"]}

def credit(body):  # the same transfer may come again, also after its end
    transfer, account, amount = body["transferId"], body["to"]["idValue"], Decimal(body["amount"])
    if transfer not in CREDITED:
        CREDITED[transfer] = account, amount
        BALANCES[account] += amount
    return ((200, {"homeTransactionId": f"credit-{transfer}"}) if CREDITED[transfer] else
            (400, {"statusCode": "5100", "message": "The transfer was aborted"}))

def finish(notice):  # the final notice: an aborted credit is reversed once, and never made again
    if notice["currentState"] == "ABORTED":
        account, amount = CREDITED.get(notice["transferId"]) or ("222", 0)
        CREDITED[notice["transferId"]] = None
        BALANCES[account] -= amount
    return 200, {}

class Bank(BaseHTTPRequestHandler):
    def serve(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or "null")
        with LOCK:
            status, answer = (find(self.path) if self.command == "GET" else
                              finish(body) if self.command == "PUT" else
                              quote(body) if self.path == "/quoterequests" else credit(body))
        text = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_GET = do_POST = do_PUT = serve

server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Bank)
print(f"ready on {server.server_address[1]}", flush=True)
server.serve_forever()
