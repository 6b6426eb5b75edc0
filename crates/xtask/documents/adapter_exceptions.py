"""Differences between the reference's program, which the adapter follows, and its document.

The document is that for back ends (outbound 2.1.0). `with_exceptions` puts the answers of the program
into it, each with its reason, so that every answer of the adapter is checked.
"""

# The member of an error that has the state of the flow, by the resource of the path.
STATES = {
    "transfers": "transferState",
    "requestToPay": "requestToPayState",
    "requestToPayTransfer": "requestToPayTransferState",
    "accounts": "executionState",
    "parties": "requestPartiesInformationState",
    "quotes": "requestQuotesInformationState",
    "simpleTransfers": "requestSimpleTransfersInformationState",
    "bulkQuotes": "bulkQuoteState",
    "bulkTransfers": "bulkTransferState",
}
TEXT = {"type": "string", "minLength": 1}
# An error before a flow has begun: a message and a code.
PLAIN_ERROR = {
    "type": "object", "required": ["message", "statusCode"], "additionalProperties": False,
    "properties": {"message": TEXT, "statusCode": TEXT},
}


def state_error(member):
    """An error of a flow: a message, a code, and the state with the last error."""
    state = {
        "type": "object", "required": ["currentState", "lastError"],
        "properties": {
            "currentState": {"enum": ["ERROR_OCCURRED"]},
            "lastError": {"type": "object", "required": ["httpStatusCode"]},
        },
    }
    return {
        "type": "object", "required": ["message", "statusCode", member],
        "additionalProperties": False,
        "properties": {"message": TEXT, "statusCode": TEXT, member: state},
    }


def with_exceptions(document):
    for path, item in document["paths"].items():
        member = STATES.get(path.split("/")[1])
        for method, operation in item.items():
            if member and method in ("get", "put", "post", "delete"):
                change_errors(operation["responses"], member, path)
    schemas = document["components"]["schemas"]
    # The program shows a flow that the back end has refused as ABORTED.
    for name in ("requestToPayStatus", "transferStatus"):
        schemas[name]["enum"].append("ABORTED")
    # The program returns all members of the request, and the whole answer to the look-up. The
    # document has some of the members, and the party without the object around it.
    asked = schemas["requestToPayResponse"]
    asked.pop("additionalProperties")
    asked["properties"]["getPartiesResponse"] = {
        "type": "object", "required": ["headers", "body"],
        "properties": {"body": {"type": "object", "required": ["party"]}},
    }


def change_errors(responses, member, path):
    # Some operations document no 400. Others show there the state of a flow, which has not begun.
    responses["400"] = answer("invalid request", PLAIN_ERROR)
    # The schemas of errors with a state contradict themselves: each of their parts forbids the
    # members of the other one. They require `transferState` or members of another operation also
    # where the program names the state as above; and look-ups, quotes and requests to pay, which
    # can fail and time out like the others, document no 500 or 504.
    for status in ("500", "504"):
        responses[status] = answer("failure of a step", state_error(member))
    if path.startswith("/parties/"):
        responses["404"] = answer("unknown party", state_error(member))


def answer(description, schema):
    return {"description": description, "content": {"application/json": {"schema": schema}}}
