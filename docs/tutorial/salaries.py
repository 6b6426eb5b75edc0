"""Makes the bodies of a salary run: a bulk transfer, and the payee's answer to it.

    salaries.py bulk COUNT EXPIRATION    POST /bulkTransfers, one item for each salary
    salaries.py answer FILE              PUT /bulkTransfers/{ID}: fulfils the items in FILE
"""
import base64, hashlib, json, sys, uuid

def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

def fulfilment(transfer):
    return hashlib.sha256(b"the payee's secret " + transfer.encode()).digest()

def item(number):
    transfer = str(uuid.uuid4())
    return {
        "transferId": transfer,
        "transferAmount": {"currency": "USD", "amount": str(300 + number % 700)},
        "ilpPacket": base64url(f"salary {number}".encode()),
        "condition": base64url(hashlib.sha256(fulfilment(transfer)).digest()),
    }

if sys.argv[1] == "bulk":
    body = {
        "bulkTransferId": str(uuid.uuid4()),
        "bulkQuoteId": str(uuid.uuid4()),
        "payerFsp": "greenbank",
        "payeeFsp": "bluebank",
        "expiration": sys.argv[3],
        "individualTransfers": [item(number) for number in range(int(sys.argv[2]))],
    }
else:
    with open(sys.argv[2]) as file:
        items = json.load(file)["individualTransfers"]
    body = {
        "bulkTransferState": "COMPLETED",
        "individualTransferResults": [
            {"transferId": it["transferId"], "fulfilment": base64url(fulfilment(it["transferId"]))}
            for it in items
        ],
    }
json.dump(body, sys.stdout, separators=(",", ":"))
