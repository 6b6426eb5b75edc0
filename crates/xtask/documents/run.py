"""Plays API documents against a freshly started switch and an adapter with Schemathesis.

A run fails if the server answers with an undocumented 5xx, or with a status, media type or body
that the document does not describe. Called by `cargo xtask schemathesis`. Stops every process that
it has started.
"""

import argparse
import http.server
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path

from adapter import Banks

HERE = Path(__file__).parent
CHECKS = (
    "no_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
)
# The published documents do not say how an answer without a body looks, and name no media type
# that the reference answers with.
PUBLISHED_CHECKS = "no_server_error,published_status"
# Of the published documents only what is served: the rest is 404 by docs/compatibility.md.
SERVED = r"^/(participants|parties|quotes|transfers)(/|$)"
SERVED_BY_ADAPTER = r"^/(parties|quotes|transfers|transactionRequests|authorizations|bulk\w+)(/|$)"
# An adapter documents neither conversion nor /bulkTransactions: docs/adapter.md, every operation.
ADAPTER_LACKS = r"^/(services|fx\w+|bulkTransactions)(/|$)"
FSPS = ("payerfsp", "payeefsp")
ENDPOINTS = {
    "PARTICIPANT_PUT": "/participants/{{partyIdType}}/{{partyIdentifier}}",
    "PARTICIPANT_PUT_ERROR": "/participants/{{partyIdType}}/{{partyIdentifier}}/error",
    "PARTICIPANT_BATCH_PUT": "/participants/{{requestId}}",
    "PARTIES_GET": "/parties/{{partyIdType}}/{{partyIdentifier}}",
    "PARTIES_PUT": "/parties/{{partyIdType}}/{{partyIdentifier}}",
    "PARTIES_PUT_ERROR": "/parties/{{partyIdType}}/{{partyIdentifier}}/error",
    "QUOTES": "",
    "TRANSFER_POST": "/transfers",
    "TRANSFER_PUT": "/transfers/{{transferId}}",
    "TRANSFER_ERROR": "/transfers/{{transferId}}/error",
}
# Besides these, those of adapters.
ADAPTER_ENDPOINTS = ENDPOINTS | {
    "PARTICIPANT_BATCH_PUT_ERROR": "/participants/{{requestId}}/error",
    "BULK_QUOTES": "",
    "BULK_TRANSFER_POST": "/bulkTransfers",
    "BULK_TRANSFER_PUT": "/bulkTransfers/{{id}}",
    "BULK_TRANSFER_ERROR": "/bulkTransfers/{{id}}/error",
    "TRX_REQ_SERVICE": "",
    "AUTHORIZATIONS": "",
}


class Sink(http.server.BaseHTTPRequestHandler):
    """A participant that takes whatever it is sent."""

    protocol_version = "HTTP/1.1"

    def take(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(202)
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_PUT = do_POST = do_PATCH = take

    def log_message(self, *_):
        pass


class Switch:
    """A switch in a directory of its own, with two participants that have money."""

    def __init__(self, program, directory):
        self.child = subprocess.Popen(
            [program, "serve", "--data", directory, "--fspiop", "127.0.0.1:0",
             "--admin", "127.0.0.1:0"],
            stdout=subprocess.PIPE, text=True)
        found = None
        for line in self.child.stdout:
            found = re.search(r"FSPIOP on (http://\S+), admin on (http://\S+)", line)
            if found:
                break
        if not found:
            sys.exit("the switch did not start; see above")
        self.fspiop, self.admin = found.groups()
        self.token = Path(directory, "admin-token").read_text().strip()

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            self.admin + path, method=method, data=json.dumps(body).encode() if body else None,
            headers={"authorization": f"Bearer {self.token}", "content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def onboard(self, sink):
        for kind in ("HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"):
            self.ask("POST", "/participants/Hub/accounts", {"currency": "XOF", "type": kind})
        for number, name in enumerate(FSPS):
            self.ask("POST", "/participants", {"name": name, "currency": "XOF"})
            limit = {"type": "NET_DEBIT_CAP", "value": 1000000}
            self.ask("POST", f"/participants/{name}/initialPositionAndLimits",
                     {"currency": "XOF", "limit": limit})
            accounts = self.ask("GET", f"/participants/{name}/accounts")
            account = next(a["id"] for a in accounts if a["ledgerAccountType"] == "SETTLEMENT")
            self.ask("POST", f"/participants/{name}/accounts/{account}", {
                "transferId": f"b51ec534-ee48-4575-b6a9-00000000000{number}",
                "externalReference": "none", "action": "recordFundsIn", "reason": "cover",
                "amount": {"amount": 1000000, "currency": "XOF"}})
            for kind, path in ENDPOINTS.items():
                self.ask("POST", f"/participants/{name}/endpoints",
                         {"type": f"FSPIOP_CALLBACK_URL_{kind}", "value": sink + path})

    def is_well(self):
        return self.child.poll() is None and self.ask("GET", "/health")["status"] == "OK"

    def stop(self):
        self.child.terminate()
        return self.child.wait(timeout=60)


def play(name, kind, location, url, seconds, seed, more):
    """Runs Schemathesis over one document and says whether nothing was found."""
    print(f"\n-- {name}, {seconds} s, seed {seed}", flush=True)
    program = Path(sys.executable).parent / "schemathesis"
    environment = os.environ | {
        "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(HERE), "UPESI_DOCUMENT": kind}
    # The fuzzing phase runs until the time is up; the phases before it have their own bounds.
    command = [
        program, "run", str(location), "--url", url, "--max-time", str(seconds),
        "--phases", "examples,coverage,fuzzing", "--seed", str(seed), "--no-color",
        "--request-timeout", "30", "--warnings", "off", "--continue-on-failure", *more]
    # It keeps notes where it runs.
    with tempfile.TemporaryDirectory() as directory:
        return subprocess.run(command, env=environment, cwd=directory).returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="the switch")
    parser.add_argument("--documents", required=True, help="directory of our documents")
    parser.add_argument("--published", required=True, help="directory of the published ones")
    parser.add_argument("--seconds", type=int, required=True, help="for all documents together")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--only", help="only documents whose name holds this")
    options = parser.parse_args()
    sink = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    here = f"http://127.0.0.1:{sink.server_port}"
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as kept:
        switch, scheme, banks = Switch(options.program, directory), None, None
        try:
            switch.onboard(here)
            scheme = Switch(options.program, str(Path(kept, "hub")))
            scheme.onboard(here)
            banks = Banks(options.program, kept, scheme, ADAPTER_ENDPOINTS)
            token = ["--header", f"Authorization:Bearer {switch.token}", "--checks", CHECKS]
            served = ["--include-path-regex", SERVED, "--checks", PUBLISHED_CHECKS]
            ours, published = Path(options.documents).resolve(), Path(options.published).resolve()
            runs = [
                ("ours: fspiop", "fspiop", ours / "fspiop.json", switch.fspiop,
                 ["--checks", CHECKS]),
                ("published: FSPIOP 1.1", "published",
                 published / "fspiop-rest-v1.1-openapi3-snippets.yaml", switch.fspiop, served),
                ("published: FSPIOP 2.0", "published",
                 published / "fspiop-rest-v2.0-openapi3-snippets.yaml", switch.fspiop, served),
                ("adapter: for back ends", "outbound",
                 published / "sdk-scheme-adapter-outbound-v2_1_0-openapi3-snippets.yaml",
                 banks.payer.outbound,
                 ["--exclude-path-regex", ADAPTER_LACKS, "--checks", CHECKS]),
                ("adapter: for the hub", "inbound",
                 published / "fspiop-rest-v2.0-openapi3-snippets.yaml", banks.payee.inbound,
                 ["--include-path-regex", SERVED_BY_ADAPTER, "--checks", PUBLISHED_CHECKS]),
                # Last, for it may switch participants off.
                ("ours: admin", "admin", ours / "admin.json", switch.admin, token),
            ]
            runs = [run for run in runs if not options.only or options.only in run[0]]
            share = max(options.seconds // len(runs), 5)
            passed = {}
            for name, kind, location, url, more in runs:
                passed[name] = play(name, kind, location, url, share, options.seed, more)
                passed[name] &= bool(switch.is_well() and banks.is_well())
        finally:
            started = [one for one in (banks, scheme, switch) if one]
            ended = any([one.stop() for one in started])
            sink.shutdown()
    print()
    for name, good in passed.items():
        print(f"{name:<24} {'passed' if good else 'FAILED'}")
    if ended:
        print("the switch or an adapter ended with an error")
    sys.exit(0 if all(passed.values()) and not ended else 1)


if __name__ == "__main__":
    main()
