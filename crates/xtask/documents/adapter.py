"""A scheme adapter with a simulated back end on each side of a switch, for run.py."""

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

from samples import PARTY

PAYER, PAYEE = "payerfsp", "payeefsp"
CONFIGURATION = """\
data = "{directory}/{name}"
outbound = "127.0.0.1:0"
inbound = "127.0.0.1:0"
monitoring = "127.0.0.1:0"
[hub]
url = "{hub}"
[[dfsp]]
id = "{name}"
backend = "{backend}"
ilp_secret_file = "{directory}/secret"
[dfsp.flow]
timeout_seconds = 1
[dfsp.retry]
attempts = 1
"""


def call(method, url, body=None, headers=None):
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(url, method=method, data=data, headers=headers or {
        "content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


class Process:
    """A program that prints its addresses when it is ready."""

    def __init__(self, command, pattern):
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        found = None
        for line in self.child.stdout:
            found = re.search(pattern, line)
            if found:
                break
        if not found:
            sys.exit(f"{command} did not start; see above")
        self.addresses = [f"http://{address}" for address in found.groups()]

    def stop(self):
        self.child.terminate()
        return self.child.wait(timeout=60)


class Bank:
    """An adapter and its back end, which knows one party."""

    def __init__(self, program, directory, name, hub):
        self.backend = Process(
            [program, "adapter", "simulate", "--backend", "127.0.0.1:0", "--test-api",
             "127.0.0.1:0"],
            r"back end on ([^\s,]+), test API on ([^\s,]+)")
        backend, self.repository = self.backend.addresses
        Path(directory, "secret").write_text("a secret of the documents' tests")
        configuration = Path(directory, f"{name}.toml")
        configuration.write_text(CONFIGURATION.format(
            directory=directory, name=name, hub=hub, backend=backend))
        self.adapter = Process(
            [program, "adapter", "--config", str(configuration)],
            r"back ends on ([^\s,]+), hub on ([^\s,]+), health on ([^\s,]+)")
        self.outbound, self.inbound, self.monitoring = self.adapter.addresses
        call("POST", self.repository + "/repository/parties", PARTY)

    def is_well(self):
        return self.adapter.child.poll() is None and call("GET", self.monitoring + "/health")

    def stop(self):
        return [self.adapter.stop(), self.backend.stop()]


class Banks:
    """Payer and payee, whose callbacks go to their adapters."""

    def __init__(self, program, directory, switch, endpoints):
        self.both = [Bank(program, directory, name, switch.fspiop) for name in (PAYER, PAYEE)]
        for name, bank in zip((PAYER, PAYEE), self.both):
            for kind, path in endpoints.items():
                switch.ask("POST", f"/participants/{name}/endpoints",
                           {"type": f"FSPIOP_CALLBACK_URL_{kind}", "value": bank.inbound + path})
        self.payer, self.payee = self.both
        call("POST", self.payee.outbound + "/accounts",
             [{"idType": PARTY["idType"], "idValue": PARTY["idValue"], "currency": "XOF"}])

    def is_well(self):
        return all(bank.is_well() for bank in self.both)

    def stop(self):
        return any(code != 0 for bank in self.both for code in bank.stop())
