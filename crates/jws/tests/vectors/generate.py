"""Makes vectors.json: messages signed by jwcrypto, a JWS library that shares nothing with ours.

    python3 -m venv venv && venv/bin/pip install -r requirements.txt
    venv/bin/python generate.py > vectors.json

Keys are made anew at each run. They are for tests only. Irregular signatures, which no library
makes, are put together by hand over the library's primitives. `outcome` is "good" or the kind
of refusal that a verifier owes.
"""

import base64
import datetime
import json

from cryptography import x509
from cryptography.hazmat.primitives import hashes, hmac, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID
from jwcrypto import jwk, jws

DATE = "Tue, 15 Nov 1994 08:12:31 GMT"
BODY = (
    '{"amount":{"amount":"123.45","currency":"SEK"},"condition":"f5sqb7tBTWPd5Y8BDFdMm9BJR_MNI4isf8p8n4D5pHA",'
    '"expiration":"2030-05-24T08:38:08.699-04:00","ilpPacket":"AYIBgQ","payeeFsp":"payee","payerFsp":"payer",'
    '"transferId":"b51ec534-ee48-4575-b6a9-ead2955b8069"}'
)
SPACED = json.dumps(json.loads(BODY), indent=2)
REVERSED = json.dumps(dict(reversed(json.loads(BODY).items())), separators=(",", ":"))
# A body and the two forms that JavaScript writes: compact in member order, then sorted at every level.
ODD = '{ "b" : [ 1.0, {"z": "\\u00e9\\/", "a": null} ], "a": 1e2 }'
ODD_COMPACT = '{"b":[1,{"z":"é/","a":null}],"a":100}'
ODD_SORTED = '{"a":100,"b":[1,{"a":null,"z":"é/"}]}'


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def pem_of(key):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def traditional(key):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


def public(key):
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()


def certificate(key, version_one_name):
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, version_one_name)])
    start = datetime.datetime(2020, 1, 1)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(0xFFFF_FFFF_FFFF)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
        .decode()
    )


KEYS = {
    "rsa": rsa.generate_private_key(65537, 2048),
    "rsa_next": rsa.generate_private_key(65537, 3072),
    "ec": ec.generate_private_key(ec.SECP256R1()),
    "stranger": rsa.generate_private_key(65537, 2048),
    "short": rsa.generate_private_key(65537, 1024),
    "p384": ec.generate_private_key(ec.SECP384R1()),
}


def headers(method="POST", uri="/transfers", source="payer", destination="payee", date=DATE):
    given = {
        "fspiop-uri": uri,
        "fspiop-http-method": method,
        "fspiop-source": source,
        "date": date,
    }
    if destination is not None:
        given["fspiop-destination"] = destination
    return given


def protected(alg, given, /, **changes):
    """As the reference's signer writes it; changes with the value None take a member away."""
    members = {
        "alg": alg,
        "FSPIOP-URI": given["fspiop-uri"],
        "FSPIOP-HTTP-Method": given["fspiop-http-method"],
        "FSPIOP-Source": given["fspiop-source"],
    }
    if "fspiop-destination" in given:
        members["FSPIOP-Destination"] = given["fspiop-destination"]
    members["Date"] = given["date"]
    for name, value in changes.items():
        name = name.replace("_", "-")
        members.pop(name, None)
        if value is not None:
            members[name] = value
    return json.dumps(members, separators=(",", ":"))


def library(alg, key, header, body):
    """The signature as jwcrypto makes it."""
    made = jws.JWS(body.encode())
    made.allowed_algs = [alg]
    made.add_signature(jwk.JWK.from_pem(pem_of(key).encode()), alg, header)
    token = json.loads(made.serialize())
    assert token["payload"] == b64(body.encode())
    return {"signature": token["signature"], "protectedHeader": token["protected"]}


def by_hand(key, header, body):
    """RS256 over any text as protected header."""
    encoded = b64(header.encode())
    message = f"{encoded}.{b64(body.encode())}".encode()
    signature = key.sign(message, padding.PKCS1v15(), hashes.SHA256())
    return {"signature": b64(signature), "protectedHeader": encoded}


VECTORS = []


def add(name, outcome, signature, sent=BODY, given=None, method="POST", path="/transfers"):
    given = dict(given or headers())
    given["fspiop-signature"] = json.dumps(signature, separators=(",", ":"))
    VECTORS.append(
        {
            "name": name,
            "outcome": outcome,
            "method": method,
            "path": path,
            "headers": given,
            "body": sent,
        }
    )


def good():
    given = headers()
    for alg in ["RS256", "RS384", "RS512"]:
        signature = library(alg, KEYS["rsa"], protected(alg, given), BODY)
        add(f"{alg}", "good", signature)
    signature = library("RS256", KEYS["rsa_next"], protected("RS256", given), BODY)
    add("RS256 by the next key", "good", signature)
    signature = library("ES256", KEYS["ec"], protected("ES256", headers(source="payee")), BODY)
    add("ES256", "good", signature, given=headers(source="payee"))

    uri = "/transfers/b51ec534-ee48-4575-b6a9-ead2955b8069"
    put = headers("PUT", uri, "payee", "payer")
    signature = library("ES256", KEYS["ec"], protected("ES256", put), '{"transferState":"COMMITTED"}')
    add("PUT", "good", signature, '{"transferState":"COMMITTED"}', put, "PUT", uri)

    alone = headers(destination=None)
    signature = library("RS256", KEYS["rsa"], protected("RS256", alone), BODY)
    add("no destination", "good", signature, given=alone)
    signature = library("RS256", KEYS["rsa"], protected("RS256", given, Date=None), BODY)
    add("date not protected", "good", signature)
    signature = library("RS256", KEYS["rsa"], protected("RS256", given, typ="JWT", kid="1"), BODY)
    add("typ and kid", "good", signature)
    typed = {**given, "content-type": "application/json"}
    content = {"Content_Type": "application/json"}
    signature = library("RS256", KEYS["rsa"], protected("RS256", given, **content), BODY)
    add("content type protected", "good", signature, given=typed)
    add("content type changed", "Mismatch", signature, given={**given, "content-type": "text/plain"})
    add("content type removed", "NotSent", signature)
    prefixed = headers(uri="/fsp/v1/transfers")
    signature = library("RS256", KEYS["rsa"], protected("RS256", prefixed), BODY)
    add("a prefix before the resource", "good", signature, given=prefixed)


def forms():
    header = protected("RS256", headers())
    sign = lambda body: library("RS256", KEYS["rsa"], header, body)
    add("spaced, signed as sent", "good", sign(SPACED), SPACED)
    add("spaced, signed compact and sorted", "good", sign(BODY), SPACED)
    add("reversed, signed as sent", "good", sign(REVERSED), REVERSED)
    add("reversed, signed compact and sorted", "good", sign(BODY), REVERSED)
    add("odd, signed as sent", "good", sign(ODD), ODD)
    add("odd, signed compact", "good", sign(ODD_COMPACT), ODD)
    add("odd, signed compact and sorted", "good", sign(ODD_SORTED), ODD)
    add("compact, signed spaced", "Wrong", sign(SPACED), BODY)
    add("sorted, signed reversed", "Wrong", sign(REVERSED), BODY)
    add("not JSON, signed as sent", "good", sign("é not JSON"), "é not JSON")
    add("empty, signed as sent", "good", by_hand(KEYS["rsa"], header, ""), "")
    long = json.dumps({"text": "é" * 3_000}, ensure_ascii=False, separators=(",", ":"))
    add("long, signed as sent", "good", sign(long), long)
    twice = BODY.replace('{"amount"', '{"payeeFsp":"thief","amount"', 1)
    add("a name twice, signed without", "Wrong", sign(BODY), twice)
    add("a name twice, signed as sent", "good", sign(twice), twice)


def forged():
    given = headers()
    header = protected("RS256", given)
    add("another's key", "Wrong", library("RS256", KEYS["stranger"], header, BODY))
    stranger = headers(source="stranger")
    signature = library("RS256", KEYS["stranger"], protected("RS256", stranger), BODY)
    add("unknown source", "UnknownSource", signature, given=stranger)

    for name, secret in [("PEM", public(KEYS["rsa"]).encode()), ("no", b"")]:
        encoded = b64(protected("HS256", given).encode())
        mac = hmac.HMAC(secret, hashes.SHA256())
        mac.update(f"{encoded}.{b64(BODY.encode())}".encode())
        signature = {"signature": b64(mac.finalize()), "protectedHeader": encoded}
        add(f"HS256 with {name} key", "Algorithm", signature)
    for alg in ["none", "None", "rs256", "RS256 ", "ES384"]:
        encoded = b64(protected(alg, given).encode())
        add(f"alg {alg!r}", "Algorithm", {"signature": "", "protectedHeader": encoded})
    signature = library("PS256", KEYS["rsa"], protected("PS256", given), BODY)
    add("PS256", "Algorithm", signature)
    encoded = b64(header.encode())
    add("no signature at all", "Wrong", {"signature": "", "protectedHeader": encoded})
    for zeros in [64, 256, 1024, 2048]:
        signature = {"signature": b64(bytes(zeros)), "protectedHeader": encoded}
        add(f"{zeros} zeros", "Wrong", signature)

    # A signature that is good but for the kind or the digest it claims.
    good = by_hand(KEYS["rsa"], protected("ES256", given), BODY)
    add("ES256 claimed for an RSA key", "OtherKey", good)
    payee = headers(source="payee")
    signature = library("ES256", KEYS["ec"], protected("ES256", payee), BODY)
    zeros = {"signature": b64(bytes(64)), "protectedHeader": signature["protectedHeader"]}
    add("ES256 of zeros", "Wrong", zeros, given=payee)
    message = f"{signature['protectedHeader']}.{b64(BODY.encode())}".encode()
    der = {**signature, "signature": b64(KEYS["ec"].sign(message, ec.ECDSA(hashes.SHA256())))}
    add("ES256 in DER", "Wrong", der, given=payee)
    signature = by_hand(KEYS["rsa"], protected("RS256", payee), BODY)
    add("RS256 claimed for an EC key", "OtherKey", signature, given=payee)
    signature = by_hand(KEYS["rsa"], protected("RS512", given), BODY)
    add("RS512 claimed for SHA-256", "Wrong", signature)


def irregular():
    given = headers()
    sign = lambda header: by_hand(KEYS["rsa"], header, BODY)
    for name in ["FSPIOP_URI", "FSPIOP_HTTP_Method", "FSPIOP_Source", "FSPIOP_Destination", "alg"]:
        written = name.replace("_", "-")
        add(f"{written} not protected", "NotProtected", sign(protected("RS256", given, **{name: None})))
        add(f"{written} empty", "NotProtected", sign(protected("RS256", given, **{name: ""})))
        add(f"{written} no text", "ProtectedMalformed", sign(protected("RS256", given, **{name: 1})))
    for name in ["FSPIOP_URI", "FSPIOP_HTTP_Method", "FSPIOP_Source", "FSPIOP_Destination", "Date"]:
        changed = sign(protected("RS256", given, **{name: "x"}))
        add(f"{name.replace('_', '-')} another", "Mismatch", changed)
    alone = headers(destination=None)
    add("destination protected, not sent", "NotSent", sign(protected("RS256", given)), given=alone)
    small = {"FSPIOP_Destination": None, "fspiop_destination": "payee"}
    add("destination in small letters", "NotProtected", sign(protected("RS256", given, **small)))
    add("destination in small letters, not sent", "NotSent",
        sign(protected("RS256", alone, fspiop_destination="payee")), given=alone)
    header = protected("RS256", given)
    add("crit", "Critical", sign(protected("RS256", given, crit=["b64"], b64=False)))
    add("empty crit", "Critical", sign(protected("RS256", given, crit=[])))
    add("alg twice", "Duplicate", sign('{"alg":"none",' + header[1:]))
    add("escaped alg twice", "Duplicate", sign('{"\\u0061lg":"none",' + header[1:]))
    add("source twice", "Duplicate", sign(header[:-1] + ',"FSPIOP-Source":"payee"}'))
    add("typ twice", "Duplicate", sign(header[:-1] + ',"typ":"a","typ":"b"}'))
    many = "".join(f',"x{at}":1' for at in range(20))
    add("many members", "ProtectedMalformed", sign(header[:-1] + many + "}"))
    for name, text in [("an array", "[]"), ("no JSON", "x"), ("cut", header[:-1]), ("more", header + "{}"),
                       ("empty", ""), ("null", "null")]:
        add(f"protected header: {name}", "ProtectedMalformed", sign(text))
    whole = sign(header)
    for member in whole:
        add(f"{member} padded", "NotBase64", {**whole, member: whole[member] + "="})
        add(f"{member} cut", "NotBase64", {**whole, member: whole[member][:-1] + "*"})
        add(f"{member} missing", "Malformed", {k: v for k, v in whole.items() if k != member})
        add(f"{member} no text", "Malformed", {**whole, member: 1})
    add("further members", "good", {**whole, "header": {"kid": "1"}})


def main():
    good()
    forms()
    forged()
    irregular()
    out = {
        "made by": f"jwcrypto {__import__('importlib.metadata').metadata.version('jwcrypto')}",
        "keys": {
            name: {
                "public": public(key),
                "certificate": certificate(key, name),
                "private": pem_of(key),
                "traditional": traditional(key),
            }
            for name, key in KEYS.items()
        },
        "vectors": VECTORS,
    }
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
