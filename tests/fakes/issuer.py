"""An identity provider: it publishes its public keys over HTTP, rotates them, and signs tokens.

It signs and describes keys by itself, without the library that checks them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Thread

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.fakes.server import Handler, Server

AUDIENCE = "https://foldex.example/mcp"
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
#: Makes a key for each algorithm.
MAKERS: Mapping[str, Callable[[], Private]] = {
    "RS256": lambda: rsa.generate_private_key(65537, 2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


def b64(given: bytes) -> str:
    return urlsafe_b64encode(given).rstrip(b"=").decode()


def number(value: int, size: int) -> str:
    return b64(value.to_bytes(size))


def public(key: Private) -> dict[str, str]:
    """A public key as JWK."""
    shown = key.public_key()
    if isinstance(shown, rsa.RSAPublicKey):
        numbers = shown.public_numbers()
        return {"kty": "RSA", "n": number(numbers.n, shown.key_size // 8), "e": number(numbers.e, 3)}
    if isinstance(shown, ec.EllipticCurvePublicKey):
        point = shown.public_numbers()
        return {"kty": "EC", "crv": "P-256", "x": number(point.x, 32), "y": number(point.y, 32)}
    raw = shown.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return {"kty": "OKP", "crv": "Ed25519", "x": b64(raw)}


def pem(key: Private) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def signature(key: Private | bytes | None, signed: bytes) -> bytes:
    """What signs bytes; of a secret an HMAC, and of nothing nothing."""
    if key is None:
        return b""
    if isinstance(key, bytes):
        return hmac.digest(key, signed, hashlib.sha256)
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(signed)
    r, s = decode_dss_signature(key.sign(signed, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32) + s.to_bytes(32)


def token(key: Private | bytes | None, header: object, claims: object) -> str:
    """A token of any header and claims."""
    parts = [b64(each if isinstance(each, bytes) else json.dumps(each).encode()) for each in (header, claims)]
    signed = ".".join(parts)
    return f"{signed}.{b64(signature(key, signed.encode()))}"


class Issuer:
    """See the module. `asked` are the requests for its keys."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.jwks = f"{url}/keys"
        self.keys: dict[str, tuple[str, Private]] = {}
        self.asked = 0
        #: What is answered instead of the keys: a status and a body.
        self.instead: tuple[int, bytes] | None = None
        self.seconds = 0.0
        #: Bytes that come one by one instead of the keys.
        self.drops = 0
        for algorithm in MAKERS:
            self.add(algorithm, algorithm)

    def add(self, key_id: str, algorithm: str) -> None:
        """Publish a new key."""
        self.keys[key_id] = (algorithm, MAKERS[algorithm]())

    def document(self) -> bytes:
        """The keys as they are published."""
        shown = [
            {**public(key), "kid": key_id, "alg": algorithm, "use": "sig"}
            for key_id, (algorithm, key) in self.keys.items()
        ]
        return json.dumps({"keys": shown}).encode()

    def claims(self, **other: object) -> dict[str, object]:
        """Claims that are valid now; None leaves one out."""
        now = int(time.time())
        usual = {
            "iss": self.url, "aud": AUDIENCE, "exp": now + 600, "iat": now, "sub": "1",
            "email": "ann@x.org", "groups": ["hr", "all, of us"], "project_id": "acme",
        }  # fmt: skip # a line each says nothing
        return {name: value for name, value in (usual | other).items() if value is not None}

    def token(self, key_id: str = "RS256", header: Mapping[str, object] | None = None, **claims: object) -> str:
        """A signed token."""
        algorithm, key = self.keys[key_id]
        return token(key, {"alg": algorithm, "kid": key_id, "typ": "JWT", **(header or {})}, self.claims(**claims))


@contextmanager
def issuing() -> Iterator[Issuer]:
    """An identity provider that runs."""

    class Answering(Handler):
        def do_GET(self) -> None:  # noqa: N802 # the base class names it so
            if self.path != "/keys":
                self.send(404, b"", {})
                return
            issuer.asked += 1
            time.sleep(issuer.seconds)
            status, body = issuer.instead or (200, issuer.document())
            if not issuer.drops:
                self.send(status, body, {"Content-Type": "application/json", "Location": "/keys"})
                return
            self.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
            for _ in range(issuer.drops):
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.05)
            self.close_connection = True

    with Server(("127.0.0.1", 0), Answering) as server:
        issuer = Issuer(f"http://127.0.0.1:{server.server_port}")
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
