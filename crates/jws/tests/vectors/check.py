"""Verifies with jwcrypto the messages that `cargo run -p jws --example signed` signs.

    cargo run -q -p jws --example signed | venv/bin/python check.py
"""

import base64
import json
import sys

from jwcrypto import jwk, jws

count = 0
for line in sys.stdin:
    message = json.loads(line)
    signature = json.loads(message["headers"]["fspiop-signature"])
    payload = base64.urlsafe_b64encode(message["body"].encode()).rstrip(b"=").decode()
    token = jws.JWS()
    token.deserialize(f"{signature['protectedHeader']}.{payload}.{signature['signature']}")
    token.verify(jwk.JWK.from_pem(message["public"].encode()))
    protected = token.jose_header
    for name, value in protected.items():
        assert name == "alg" or message["headers"][name.lower()] == value, name
    assert "FSPIOP-Source" in protected, protected
    count += 1
    print(protected["alg"], message["headers"]["fspiop-uri"], "verified")
assert 0 < count, "no message came"
