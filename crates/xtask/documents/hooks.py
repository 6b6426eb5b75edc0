"""Hooks of Schemathesis for FSPIOP: valid senders, and the 5xx responses that are allowed.

Loaded by Schemathesis (SCHEMATHESIS_HOOKS). UPESI_DOCUMENT names the document that is played:
fspiop, admin, published, outbound (an adapter, for back ends) or inbound (an adapter, for the hub).
"""

import os
import random

import schemathesis

from adapter_exceptions import with_exceptions
from samples import PARTY

DOCUMENT = os.environ["UPESI_DOCUMENT"]
RESOURCES = (
    "participants", "parties", "quotes", "transfers", "transactionRequests", "authorizations",
    "bulkQuotes", "bulkTransfers")
# Documented 5xx responses of a working hub. Like the reference, the admin API answers 500 to some
# changes that the state forbids.
ALLOWED = {"fspiop": {501, 503}, "published": {501, 503}, "admin": {500, 501, 503},
           # To its back end an adapter passes the failure of each step on.
           "outbound": {500, 501, 503, 504}, "inbound": {501, 503}}
# Responses that differ from the published document on purpose; docs/compatibility.md has the reasons.
KNOWN = {("POST", "/participants", 200)}
# Names of persons, in words that Python's regular expressions know.
PERSON_NAME = "^[A-Za-z0-9_.,'-][A-Za-z0-9_ .,'-]{0,127}$"
DATE = "Tue, 15 Nov 1994 08:12:31 GMT"
FSPS = ("payerfsp", "payeefsp")


@schemathesis.hook
def before_load_schema(context, raw_schema):
    """Replaces patterns with Unicode properties, which Python does not support, and those of
    headers, which take minutes to match. The tests of fspiop cover both."""
    if DOCUMENT == "outbound":
        with_exceptions(raw_schema)
    for value in list(walk(raw_schema)):
        if not isinstance(value, dict):
            continue
        if "\\p{" in str(value.get("pattern", "")):
            value["pattern"] = PERSON_NAME
        if value.get("in") == "header" and "pattern" in value.get("schema", {}):
            good = value.get("example", "")
            value["schema"] = {"type": "string", "enum": [good or "broken", "broken"]}


def walk(value):
    yield value
    inside = value.values() if isinstance(value, dict) else value
    if isinstance(value, (dict, list)):
        for one in inside:
            yield from walk(one)


@schemathesis.hook
def before_call(context, case, kwargs):
    """Gives most calls a known sender, so that they come past the first checks."""
    if DOCUMENT == "admin":
        return
    chance = random.Random(f"{case.method} {case.formatted_path} {case.body!r} {case.headers!r}")
    if DOCUMENT == "outbound":
        name_known_party(case, chance)
        return
    headers = case.headers
    resource = case.path.strip("/").split("/")[0]
    if DOCUMENT in ("published", "inbound"):
        media = f"application/vnd.interoperability.{resource}+json;version="
        headers["Accept"] = media + "1"
        headers["Content-Type"] = media + chance.choice(("1.0", "1.1", "2.0"))
        headers["Date"] = DATE
    if resource in RESOURCES and chance.random() < 0.8:
        headers["FSPIOP-Source"] = FSPS[0]
        headers["FSPIOP-Destination"] = FSPS[1]
        for name in [name for name in headers if name.lower() in ("x-client-id", "fspiop-proxy")]:
            del headers[name]


def name_known_party(case, chance):
    """Names a party that exists in most calls, so that they come past the look-up."""
    if chance.random() < 0.2:
        return
    known = {"idType": PARTY["idType"], "idValue": PARTY["idValue"]}
    if {"Type", "ID"} <= set(case.path_parameters or {}):
        case.path_parameters |= {"Type": known["idType"], "ID": known["idValue"]}
    body = case.body if isinstance(case.body, dict) else {}
    items = body.get("individualQuotes") or body.get("individualTransfers") or [body]
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict) and isinstance(item.get("to"), dict):
            item["to"] |= known
            item["currency"] = "XOF"


@schemathesis.check
def no_server_error(context, response, case):
    """A fault of the server, other than what a document may say."""
    if 500 <= response.status_code and response.status_code not in ALLOWED[DOCUMENT]:
        raise AssertionError(f"{response.status_code}: {response.text}")


@schemathesis.check
def published_status(context, response, case):
    """A status that the published document knows, or a difference that is listed."""
    known = (case.method.upper(), case.path, response.status_code) in KNOWN
    described = str(response.status_code) in case.operation.definition.raw.get("responses", {})
    if not known and not described:
        raise AssertionError(f"{response.status_code} is not described: {response.text}")
