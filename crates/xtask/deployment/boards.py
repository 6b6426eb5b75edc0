"""Reads boards with Grafana's own model of a dashboard, and writes them again.

A member that the model does not know, or a value that it changes, is an error: Grafana would ignore
it. Usage: boards.py FILE...
"""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

# Members that Grafana writes too, and that the model lacks.
NOT_IN_THE_MODEL = {"definition", "titleFormat", "textFormat", "step"}


def differences(given, found, place):
    """Yields the places at which the model lacks or changes a value."""
    if isinstance(given, dict) and isinstance(found, dict):
        for name, value in given.items():
            if name in found:
                yield from differences(value, found[name], f"{place}.{name}")
            elif value not in (None, [], {}) and name not in NOT_IN_THE_MODEL:
                yield f"{place}.{name} is unknown to Grafana"
    elif isinstance(given, list) and isinstance(found, list) and len(given) == len(found):
        for number, pair in enumerate(zip(given, found)):
            yield from differences(*pair, f"{place}[{number}]")
    elif given != found:
        yield f"{place}: {given!r} becomes {found!r}"


def main(files):
    wrong = 0
    for file in files:
        with open(file, encoding="utf-8") as text:
            board = json.load(text)
        model = Dashboard.from_json(board)
        found = json.loads(JSONEncoder().encode(model))
        for difference in differences(board, found, ""):
            print(f"{file}: {difference}", file=sys.stderr)
            wrong += 1
    return wrong == 0 and bool(files)


sys.exit(0 if main(sys.argv[1:]) else 1)
