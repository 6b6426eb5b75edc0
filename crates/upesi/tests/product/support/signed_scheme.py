"""Three banks of a scheme that `upesi init` has set up, with Python's TLS and openssl's signatures.

usage: signed_scheme.py DIRECTORY FSPIOP_PORT ADMIN_PORT

The banks provoke every kind of message that a hub makes. Each message that they receive must have a
valid FSPIOP-Signature of its FSPIOP-Source, whose protected header agrees with the request. The
checks are those of the validator that the published test kit and the SDK of the community use. Prints
one line per kind of message of the hub.
"""

import base64
import hashlib
import http.client
import http.server
import json
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from email.utils import formatdate

HUB = "Hub"
PATIENCE_S = 20
directory = pathlib.Path(sys.argv[1])
fspiop, admin = int(sys.argv[2]), int(sys.argv[3])
ca = directory / "tls/ca.pem"
token = (directory / "administrator.token").read_text().strip()
FULFILMENT = base64.urlsafe_b64encode(b"f" * 32).rstrip(b"=").decode()
WRONG_FULFILMENT = base64.urlsafe_b64encode(b"g" * 32).rstrip(b"=").decode()
CONDITION = base64.urlsafe_b64encode(hashlib.sha256(b"f" * 32).digest()).rstrip(b"=").decode()


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def openssl(*arguments, data=b""):
    return subprocess.run(["openssl", *map(str, arguments)], input=data, capture_output=True)


def is_elliptic(pem):
    """A P-256 key is much shorter than an RSA key."""
    return len(pem.read_text()) < 400


def to_raw(der):
    """r and s of a DER signature, 32 bytes each."""
    assert der[0] == 0x30
    numbers, at = [], 2
    for _ in range(2):
        length = der[at + 1]
        numbers.append(int.from_bytes(der[at + 2 : at + 2 + length], "big"))
        at += 2 + length
    return b"".join(number.to_bytes(32, "big") for number in numbers)


def to_der(raw):
    def integer(part):
        part = part.lstrip(b"\0") or b"\0"
        part = b"\0" + part if part[0] & 0x80 else part
        return bytes([2, len(part)]) + part

    both = integer(raw[:32]) + integer(raw[32:])
    return bytes([0x30, len(both)]) + both


def sign(key, headers, body):
    """The value of FSPIOP-Signature."""
    elliptic = is_elliptic(key)
    protected = {"alg": "ES256" if elliptic else "RS256"}
    names = ("FSPIOP-URI", "FSPIOP-HTTP-Method", "FSPIOP-Source", "FSPIOP-Destination", "Date")
    protected |= {name: headers[name] for name in names if name in headers}
    protected = encoded(json.dumps(protected).encode())
    made = openssl("dgst", "-sha256", "-sign", key, data=f"{protected}.{encoded(body)}".encode())
    assert made.returncode == 0, made.stderr
    signature = encoded(to_raw(made.stdout) if elliptic else made.stdout)
    return json.dumps({"signature": signature, "protectedHeader": protected})


def verify(message):
    """Asserts that a received message is signed by its source."""
    headers, body = message["headers"], message["body"]
    where = f"{message['method']} {message['path']} of {headers['fspiop-source']}"
    for name in ("fspiop-signature", "fspiop-uri", "fspiop-http-method"):
        assert headers.get(name), f"{where}: no {name}"
    value = json.loads(headers["fspiop-signature"])
    protected = json.loads(decoded(value["protectedHeader"]))
    assert protected["FSPIOP-HTTP-Method"] == message["method"], (where, protected)
    assert protected["FSPIOP-URI"] == message["path"], (where, protected)
    for name in ("FSPIOP-URI", "FSPIOP-HTTP-Method", "FSPIOP-Source"):
        assert protected[name] == headers[name.lower()], (where, name)
    assert protected.get("Date") in (None, headers["date"]), (where, "Date")
    name = "FSPIOP-Destination"
    assert protected.get(name) == headers.get(name.lower()), (where, name)
    source = headers["fspiop-source"]
    if source == HUB:
        # The validator parses the body, sorts the members, and writes it again before it verifies.
        form = {"separators": (",", ":"), "ensure_ascii": False, "sort_keys": True}
        assert json.dumps(json.loads(body), **form).encode() == body, (where, body)
    public = directory / ("jws/hub.pem" if source == HUB else f"jws/participants/{source}.pem")
    elliptic = is_elliptic(public)
    assert protected["alg"] == ("ES256" if elliptic else "RS256"), (where, protected)
    signature = decoded(value["signature"])
    with tempfile.NamedTemporaryFile() as file:
        file.write(to_der(signature) if elliptic else signature)
        file.flush()
        text = f"{value['protectedHeader']}.{encoded(body)}".encode()
        verified = openssl("dgst", "-sha256", "-verify", public, "-signature", file.name, data=text)
    assert verified.returncode == 0, f"{where}: {verified.stdout} {verified.stderr}"


class Bank:
    """A participant: an HTTPS server that requires the hub's certificate, and a client."""

    def __init__(self, name):
        self.name = name
        self.own = directory / "participants" / name
        self.received, self.changed = [], threading.Condition()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
        context.load_cert_chain(self.own / "server.pem", self.own / "server.key")
        context.verify_mode = ssl.CERT_REQUIRED
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler())
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"https://127.0.0.1:{self.server.server_address[1]}"

    def handler(bank):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def take(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                message = {"method": self.command, "path": self.path}
                with bank.changed:
                    bank.received.append(message | {"headers": headers, "body": body})
                    bank.changed.notify_all()
                self.send_response(202 if self.command in ("GET", "POST") else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            do_GET = do_POST = do_PUT = do_PATCH = take

            def log_message(self, *_):
                pass

        return Handler

    def send(self, method, path, body=None, to=None):
        """Sends a signed message. The hub must accept it."""
        resource = path.split("/")[1]
        media = f"application/vnd.interoperability.{resource}+json;version=1.1"
        headers = {"Content-Type": media, "Date": formatdate(usegmt=True)}
        headers |= {"FSPIOP-Source": self.name} | ({"FSPIOP-Destination": to} if to else {})
        if method in ("GET", "POST"):
            headers["Accept"] = media
        data = None
        if body is not None:
            data = json.dumps(body, separators=(",", ":")).encode()
            headers |= {"FSPIOP-URI": path, "FSPIOP-HTTP-Method": method}
            headers["FSPIOP-Signature"] = sign(self.own / "signing.key", headers, data)
        context = ssl.create_default_context(cafile=ca)
        context.load_cert_chain(self.own / "certificate.pem", self.own / "certificate.key")
        connection = http.client.HTTPSConnection("localhost", fspiop, context=context)
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status in (200, 202), (method, path, answer.status, text)

    def wait(self, method, path, source=None, number=1):
        """The message of this kind, when it has arrived as often as `number`."""

        def found():
            same = [it for it in self.received if (it["method"], it["path"]) == (method, path)]
            same = [it for it in same if source in (None, it["headers"]["fspiop-source"])]
            return same[number - 1] if number <= len(same) else None

        with self.changed:
            arrived = self.changed.wait_for(found, PATIENCE_S)
            seen = [(it["method"], it["path"]) for it in self.received]
            assert arrived, f"{self.name} waits for {method} {path}; has {seen}"
            return arrived


def operate(method, path, body, *expected):
    context = ssl.create_default_context(cafile=ca)
    connection = http.client.HTTPSConnection("localhost", admin, context=context)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(method, path, body and json.dumps(body), headers)
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status in expected, (method, path, answer.status, text)
    return json.loads(text) if text else None


def onboard(name, url):
    operate("POST", "/participants", {"name": name, "currency": "USD"}, 201)
    limit = {"type": "NET_DEBIT_CAP", "value": 1000}
    limits = {"currency": "USD", "limit": limit, "initialPosition": 0}
    operate("POST", f"/participants/{name}/initialPositionAndLimits", limits, 201)
    accounts = operate("GET", f"/participants/{name}/accounts", None, 200)
    settlement = next(it["id"] for it in accounts if it["ledgerAccountType"] == "SETTLEMENT")
    funds = {"transferId": str(uuid.uuid4()), "externalReference": "r", "reason": "r"}
    funds |= {"action": "recordFundsIn", "amount": {"amount": "1000", "currency": "USD"}}
    operate("POST", f"/participants/{name}/accounts/{settlement}", funds, 202)
    party = "{{partyIdType}}/{{partyIdentifier}}"
    for kind, path in {
        "PARTICIPANT_PUT": f"/participants/{party}",
        "PARTICIPANT_PUT_ERROR": f"/participants/{party}/error",
        "PARTIES_GET": f"/parties/{party}",
        "PARTIES_PUT": f"/parties/{party}",
        "PARTIES_PUT_ERROR": f"/parties/{party}/error",
        "QUOTES": "",
        "PARTICIPANT_BATCH_PUT": "/participants/{{requestId}}",
        "PARTICIPANT_BATCH_PUT_ERROR": "/participants/{{requestId}}/error",
        "BULK_QUOTES": "",
        "BULK_TRANSFER_POST": "/bulkTransfers",
        "BULK_TRANSFER_PUT": "/bulkTransfers/{{id}}",
        "BULK_TRANSFER_ERROR": "/bulkTransfers/{{id}}/error",
        "TRX_REQ_SERVICE": "",
        "AUTHORIZATIONS": "",
        "TRANSFER_POST": "/transfers",
        "TRANSFER_PUT": "/transfers/{{transferId}}",
        "TRANSFER_ERROR": "/transfers/{{transferId}}/error",
    }.items():
        endpoint = {"type": f"FSPIOP_CALLBACK_URL_{kind}", "value": url + path}
        operate("POST", f"/participants/{name}/endpoints", endpoint, 201)


def timestamp(ahead_s):
    now = time.time() + ahead_s
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"


def transfer(amount="10", ahead_s=600, payee="bank-b"):
    return {
        "transferId": str(uuid.uuid4()),
        "payerFsp": "bank-a",
        "payeeFsp": payee,
        "amount": {"amount": amount, "currency": "USD"},
        "ilpPacket": "AYIBgQAAAAAAAASwNGxldmVsb25l",
        "condition": CONDITION,
        "expiration": timestamp(ahead_s),
    }


def prepare(body):
    """Sends a transfer and waits until the payee has it. Returns its path."""
    path = f"/transfers/{body['transferId']}"
    a.send("POST", "/transfers", body, "bank-b")
    with b.changed:
        arrived = lambda: any(body["transferId"].encode() in it["body"] for it in b.received)
        assert b.changed.wait_for(arrived, PATIENCE_S), path
    return path


def fulfil(path, state="COMMITTED", fulfilment=FULFILMENT):
    body = {"transferState": state, "completedTimestamp": timestamp(0), "fulfilment": fulfilment}
    b.send("PUT", path, body, "bank-a")


def fail(path, code="5001"):
    information = {"errorCode": code, "errorDescription": "refused"}
    b.send("PUT", f"{path}/error", {"errorInformation": information}, "bank-a")


def parties():
    b.send("POST", "/participants/MSISDN/123", {"fspId": "bank-b", "currency": "USD"})
    b.wait("PUT", "/participants/MSISDN/123", HUB)
    a.send("GET", "/participants/MSISDN/123")
    a.wait("PUT", "/participants/MSISDN/123", HUB)
    a.send("GET", "/participants/MSISDN/999")
    a.wait("PUT", "/participants/MSISDN/999/error", HUB)
    a.send("GET", "/parties/MSISDN/999")
    a.wait("PUT", "/parties/MSISDN/999/error", HUB)
    a.send("GET", "/parties/MSISDN/123")
    b.wait("GET", "/parties/MSISDN/123")
    known = {"partyIdType": "MSISDN", "partyIdentifier": "123", "fspId": "bank-b"}
    b.send("PUT", "/parties/MSISDN/123", {"party": {"partyIdInfo": known}}, "bank-a")
    a.wait("PUT", "/parties/MSISDN/123", "bank-b")


def quote(payee):
    def party(name):
        known = {"partyIdType": "MSISDN", "partyIdentifier": "1", "fspId": name}
        return {"partyIdInfo": known}

    body = {"quoteId": str(uuid.uuid4()), "transactionId": str(uuid.uuid4())}
    body |= {"payer": party("bank-a"), "payee": party(payee), "amountType": "SEND"}
    kind = {"scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER"}
    body |= {"amount": {"amount": "1", "currency": "USD"}, "transactionType": kind}
    a.send("POST", "/quotes", body, payee)
    return f"/quotes/{body['quoteId']}"


def quotes():
    path = quote("bank-b")
    b.wait("POST", "/quotes", "bank-a")
    terms = {"transferAmount": {"amount": "1", "currency": "USD"}, "condition": CONDITION}
    terms |= {"expiration": timestamp(60), "ilpPacket": "AYIBgQAAAAAAAASwNGxldmVsb25l"}
    b.send("PUT", path, terms, "bank-a")
    a.wait("PUT", path, "bank-b")
    # Nothing listens where bank-c is called.
    a.wait("PUT", f"{quote('bank-c')}/error", HUB)


def transfers():
    reserved = prepare(transfer())
    fulfil(reserved, "RESERVED")
    a.wait("PUT", reserved)
    b.wait("PATCH", reserved, HUB)
    body = transfer()
    committed = prepare(body)
    fulfil(committed)
    a.wait("PUT", committed)
    b.wait("PUT", committed, HUB)
    a.send("GET", committed)
    a.wait("PUT", committed, HUB)
    a.send("POST", "/transfers", body, "bank-b")
    a.wait("PUT", committed, HUB, number=2)
    amount = {"amount": "11", "currency": "USD"}
    a.send("POST", "/transfers", body | {"amount": amount}, "bank-b")
    a.wait("PUT", f"{committed}/error", HUB)


def failures():
    aborted = prepare(transfer())
    fail(aborted)
    a.wait("PUT", f"{aborted}/error")
    b.wait("PUT", f"{aborted}/error", HUB)
    wrong = prepare(transfer())
    fulfil(wrong, fulfilment=WRONG_FULFILMENT)
    a.wait("PUT", f"{wrong}/error")
    b.wait("PUT", f"{wrong}/error", HUB)
    late = prepare(transfer(ahead_s=2))
    a.wait("PUT", f"{late}/error", HUB)
    b.wait("PUT", f"{late}/error", HUB)
    body = transfer(amount="100000")
    a.send("POST", "/transfers", body, "bank-b")
    a.wait("PUT", f"/transfers/{body['transferId']}/error", HUB)
    unknown = f"/transfers/{uuid.uuid4()}"
    a.send("GET", unknown)
    a.wait("PUT", f"{unknown}/error", HUB)


def batch():
    request = str(uuid.uuid4())
    entry = {"partyIdType": "MSISDN", "partyIdentifier": "456", "fspId": "bank-b"}
    body = {"requestId": request, "partyList": [entry], "currency": "USD"}
    b.send("POST", "/participants", body)
    b.wait("PUT", f"/participants/{request}", HUB)


def unforwarded():
    """Messages that the hub cannot deliver: nothing listens where bank-c is called."""
    kind = {"scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER"}
    usd = {"amount": "1", "currency": "USD"}

    def party(name):
        return {"partyIdType": "MSISDN", "partyIdentifier": "1", "fspId": name}

    one = str(uuid.uuid4())
    body = {"transactionRequestId": one, "payee": {"partyIdInfo": party("bank-a")}}
    body |= {"payer": party("bank-c"), "amount": usd}
    asked = kind | {"initiator": "PAYEE", "initiatorType": "BUSINESS"}
    a.send("POST", "/transactionRequests", body | {"transactionType": asked}, "bank-c")
    a.wait("PUT", f"/transactionRequests/{one}/error", HUB)
    a.send("GET", f"/transactions/{one}", to="bank-c")
    a.wait("PUT", f"/transactions/{one}/error", HUB)
    query = "authenticationType=OTP&retriesLeft=2&amount=1&currency=USD"
    a.send("GET", f"/authorizations/{one}?{query}", to="bank-c")
    a.wait("PUT", f"/authorizations/{one}/error", HUB)
    single = {"quoteId": str(uuid.uuid4()), "transactionId": str(uuid.uuid4()), "amount": usd}
    single |= {"payee": {"partyIdInfo": party("bank-c")}, "amountType": "SEND"}
    body = {"bulkQuoteId": one, "payer": {"partyIdInfo": party("bank-a")}}
    body |= {"individualQuotes": [single | {"transactionType": kind}]}
    a.send("POST", "/bulkQuotes", body, "bank-c")
    a.wait("PUT", f"/bulkQuotes/{one}/error", HUB)


def bulks():
    one, item = str(uuid.uuid4()), {"transferId": str(uuid.uuid4())}
    path = f"/bulkTransfers/{one}"
    terms = {"transferAmount": {"amount": "1", "currency": "USD"}, "condition": CONDITION}
    terms |= {"ilpPacket": "AYIBgQAAAAAAAASwNGxldmVsb25l"}
    body = {"bulkTransferId": one, "bulkQuoteId": str(uuid.uuid4()), "payerFsp": "bank-a"}
    body |= {"payeeFsp": "bank-b", "expiration": timestamp(600)}
    a.send("POST", "/bulkTransfers", body | {"individualTransfers": [item | terms]}, "bank-b")
    b.wait("POST", "/bulkTransfers", HUB)
    result = {"bulkTransferState": "COMPLETED", "completedTimestamp": timestamp(0)}
    result |= {"individualTransferResults": [item | {"fulfilment": FULFILMENT}]}
    b.send("PUT", path, result, "bank-a")
    a.wait("PUT", path, HUB)
    b.wait("PUT", path, HUB)
    a.send("GET", path)
    a.wait("PUT", path, HUB, number=2)
    unknown = f"/bulkTransfers/{uuid.uuid4()}"
    a.send("GET", unknown)
    a.wait("PUT", f"{unknown}/error", HUB)


a, b = Bank("bank-a"), Bank("bank-b")
for kind in ("HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"):
    operate("POST", "/participants/Hub/accounts", {"currency": "USD", "type": kind}, 201)
for name, url in (("bank-a", a.url), ("bank-b", b.url), ("bank-c", "https://127.0.0.1:9")):
    onboard(name, url)
parties()
quotes()
transfers()
failures()
batch()
unforwarded()
bulks()

kinds = {}
for bank in (a, b):
    for message in bank.received:
        if message["method"] == "GET":
            continue
        verify(message)
        if message["headers"]["fspiop-source"] == HUB:
            path = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "{id}", message["path"])
            kind = f"{bank.name} {message['method']} {path}"
            kinds[kind] = kinds.get(kind, 0) + 1
for kind in sorted(kinds):
    print(f"{kind} {kinds[kind]}")
