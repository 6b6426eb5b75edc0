"""Figures of docs/tutorial/scheme-day.sh: reads the admin API and compares exact decimals.

Usage: scheme_day.py CHECK [ARGUMENT...]. ADMIN and DATA name the switch.
"""
import json
import os
import pathlib
import socket
import sys
import urllib.request
import uuid
from decimal import Decimal

FSPS = ["fsp201", "fsp202", "fsp203", "fsp204"]
CURRENCIES = ["USD", "KES"]
ALL = "fromDateTime=1970-01-01T00:00:00.000Z"


def call(method, path, body=None):
    data = pathlib.Path(os.environ["DATA"])
    request = urllib.request.Request(
        os.environ["ADMIN"] + path,
        None if body is None else json.dumps(body).encode(),
        {
            "Authorization": "Bearer " + (data / "admin-token").read_text().strip(),
            "Content-Type": "application/json",
        },
        method=method,
    )
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
    return json.loads(text, parse_float=Decimal, parse_int=Decimal) if text else None


def must(holds, text):
    if not holds:
        sys.exit(f"scheme day: {text}")


def table(heading, rows):
    rows = [[str(cell) for cell in row] for row in [heading, *rows]]
    widths = [max(len(row[at]) for row in rows) for at in range(len(heading))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  " + "  ".join([row[0].ljust(widths[0]), *cells]))


def accounts():
    """Balances by participant, account type and currency."""
    found = {}
    for name in [*FSPS, "Hub"]:
        for account in call("GET", f"/participants/{name}/accounts"):
            key = (name, account["ledgerAccountType"], account["currency"])
            found[key] = account["value"]
    return found


def settlements():
    return call("GET", f"/v2/settlements?{ALL}")


def nets(settlement):
    """Nets by account number."""
    found = {}
    for participant in settlement["participants"]:
        for account in participant["accounts"]:
            amount = account["netSettlementAmount"]
            found[int(account["id"])] = (amount["amount"], amount["currency"])
    return found


def ports():
    """The first of four free ports in a row."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = probe.getsockname()[1]
        opened = []
        try:
            for port in range(first, first + 4):
                opened.append(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue
        finally:
            for one in opened:
                one.close()
        return print(first)


def subscribers(count):
    """Parties of the simulated DFSPs, as a file for `upesi party import`."""
    print("type,id,sub_id,fsp,currency")
    for fsp in FSPS:
        first = 25_500_000_000 + int(fsp[3:]) * 100_000
        for number in range(first, first + int(count)):
            print(f"MSISDN,{number},,{fsp},")


def counts(usd, kes, *reports):
    """Positions of the switch are those that the DFSPs counted, and add up to zero."""
    balances = accounts()
    rows = []
    for currency, report, count in zip(CURRENCIES, reports, [usd, kes]):
        counted = {}
        for line in pathlib.Path(report).read_text().splitlines():
            cells = line.split()
            if cells and cells[0] in FSPS:
                counted[cells[0]] = cells
        paid = sum(int(cells[2]) for cells in counted.values())
        must(paid == int(count), f"{paid} of {count} transfers in {currency} were paid")
        for fsp in FSPS:
            position = balances[fsp, "POSITION", currency]
            must(position == Decimal(counted[fsp][1]), f"{fsp}: {position} is not {counted[fsp]}")
            rows.append([fsp, currency, position, counted[fsp][1]])
        total = sum(balances[fsp, "POSITION", currency] for fsp in FSPS)
        must(total == 0, f"positions in {currency} add up to {total}")
    positions = {f"{fsp} {currency}": str(position) for fsp, currency, position, _ in rows}
    pathlib.Path(os.environ["DATA"], "../positions").write_text(json.dumps(positions))
    table(["participant", "currency", "position", "counted by the DFSP"], rows)
    print("Positions agree with the DFSPs and add up to zero.")


def funds_out(fsp, currency, amount):
    """A withdrawal is reserved and then committed."""
    before = accounts()
    account = next(
        it["id"]
        for it in call("GET", f"/participants/{fsp}/accounts")
        if (it["ledgerAccountType"], it["currency"]) == ("SETTLEMENT", currency)
    )
    path, transfer = f"/participants/{fsp}/accounts/{account}", str(uuid.uuid4())
    call("POST", path, {
        "transferId": transfer,
        "externalReference": "advice 1",
        "action": "recordFundsOutPrepareReserve",
        "reason": "withdrawal",
        "amount": {"amount": amount, "currency": currency},
    })
    reserved = accounts()
    commit = {"action": "recordFundsOutCommit", "reason": "paid out"}
    call("PUT", f"{path}/transfers/{transfer}", commit)
    paid_out = accounts()
    rows = []
    for name, kind in [(fsp, "SETTLEMENT"), ("Hub", "HUB_RECONCILIATION")]:
        key = (name, kind, currency)
        rows.append([f"{name} {kind}", before[key], reserved[key], paid_out[key]])
    table(["account", "before", "reserved", "paid out"], rows)
    moved = Decimal(amount)
    must(rows[0][2] - rows[0][1] == moved and rows[0][3] == rows[0][2], "the cover is wrong")
    must(rows[1][3] - rows[1][1] == -moved, "the hub's account is wrong")


def remember():
    pathlib.Path(os.environ["DATA"], "../balances").write_text(str(sorted(accounts().items())))


def is_as_before():
    before = pathlib.Path(os.environ["DATA"], "../balances").read_text()
    return before == str(sorted(accounts().items()))


def differs():
    must(not is_as_before(), "the reservation has moved nothing")
    print("The net recipients have lost their credit.")


def same():
    must(is_as_before(), "the abort has not returned every balance")
    print("All balances are as before.")


def ties():
    """Nets of the settled settlements: zero per currency, and what the DFSPs had paid."""
    totals, settled = {}, []
    for settlement in settlements():
        if settlement["state"] != "SETTLED":
            continue
        sums = {}
        for amount, currency in nets(settlement).values():
            sums[currency] = sums.get(currency, 0) + amount
        for account, (amount, _) in nets(settlement).items():
            totals[account] = totals.get(account, 0) + amount
        must(all(total == 0 for total in sums.values()), f"nets add up to {sums}")
        paid = sum(amount for amount, _ in nets(settlement).values() if amount > 0)
        settled.append([int(settlement["id"]), *sums, paid, *sums.values()])
    table(["settlement", "currency", "paid in and out", "sum of all nets"], settled)
    rows = []
    positions = json.loads(pathlib.Path(os.environ["DATA"], "../positions").read_text())
    for fsp in FSPS:
        for account in call("GET", f"/participants/{fsp}/accounts"):
            if account["ledgerAccountType"] != "POSITION":
                continue
            net = totals[int(account["id"])]
            before = Decimal(positions[f"{fsp} {account['currency']}"])
            rows.append([fsp, account["currency"], before, net, account["value"]])
            must(before == net, f"{fsp}: it owed {before} and settled {net}")
            must(account["value"] == 0, f"{fsp}: its position is {account['value']}")
    table(["participant", "currency", "position", "settled", "position now"], rows)
    ledger = {}
    for (_, _, currency), value in accounts().items():
        ledger[currency] = ledger.get(currency, 0) + value
    must(all(total == 0 for total in ledger.values()), f"the ledger adds up to {ledger}")
    windows = call("GET", "/v2/settlementWindows?state=SETTLED")
    must(len(windows) == 2, f"{len(windows)} windows are settled")
    print("Every net ties to a position, and each currency of the ledger adds up to zero.")


def entries_of(account):
    """The sum of the entries, which must lead from the opening to the closing balance."""
    booked = [Decimal(account[end]["booked"]) for end in ["opening", "closing"]]
    total = sum((Decimal(entry["amount"]) for entry in account["entries"]), Decimal(0))
    must(booked[0] + total == booked[1], f"account {account['accountId']} does not add up")
    return total


def statements():
    """Statements of windows, settlements and participants agree with each other."""
    totals, rows = {}, []
    for kind, path, wanted in [
        ("window", "/v2/settlementWindows", [1, 2]),
        ("settlement", "/v2/settlements", [1, 3, 4]),
    ]:
        for number in wanted:
            statement = call("GET", f"{path}/{number}/statement?format=json")
            for total in statement["totals"]:
                must(Decimal(total["net"]) == 0, f"{kind} {number} adds up to {total['net']}")
                rows.append([f"{kind} {number}", total["currency"], total["debits"],
                             total["credits"], total["net"]])
            for account in statement["accounts"]:
                key = kind, int(account["accountId"])
                totals[key] = totals.get(key, 0) + entries_of(account)
    table(["statement", "currency", "debits", "credits", "net"], rows)
    for (kind, account), total in totals.items():
        must(totals["window", account] == total, f"account {account}: {kind}s have {total}")
    positions = json.loads(pathlib.Path(os.environ["DATA"], "../positions").read_text())
    for fsp in FSPS:
        statement = call("GET", f"/participants/{fsp}/statement?format=json")
        closing = {}
        for account in statement["accounts"]:
            entries_of(account)
            balance = account["closing"]
            closing[int(account["accountId"])] = sum(map(Decimal, balance.values()))
        for account in call("GET", f"/participants/{fsp}/accounts"):
            number, value = int(account["id"]), account["value"]
            must(closing[number] == value, f"{fsp} account {number}: {closing[number]}, {value}")
            if account["ledgerAccountType"] == "POSITION":
                before = Decimal(positions[f"{fsp} {account['currency']}"])
                must(totals["window", number] == before, f"{fsp} account {number}: {before}")
    print("Windows, settlements and positions have the same nets; closing balances are the ledger's.")


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])
