"""Signed tokens (JWT) in place of keys: what makes one valid, and for whom its holder acts.

A token never allows more than the scope `search`, whatever it says. Nothing in it says where its key is.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from joserfc import jwt
from joserfc.errors import ExpiredTokenError, InvalidClaimError, JoseError, MissingClaimError
from joserfc.jwk import Key
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry

from api.identity.issuer_keys import KINDS, IssuerKeys
from api.identity.resource_metadata import ResourceMetadata
from schemas.claims import ClaimNames
from schemas.content.acl import MAX_PRINCIPALS, checked_principal
from schemas.errors import TokenInvalid, TokenUnusable
from schemas.ids import addressable
from schemas.scopes import Scope, allowed

#: Bytes of a token. Servers and proxies take headers of 8 to 64 KiB.
MAX_BYTES = 1 << 14
#: Seconds by which the clocks of the issuer and of this machine may differ.
SKEW_SECONDS = 60
#: Characters of a project's id.
MAX_PROJECT = 256
#: Three parts in base64. A key has no dots.
_SHAPE = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class OidcOptions:
    """The settings of tokens. Either the first three are set, or none of them."""

    oidc_issuer: str | None
    oidc_audience: str | None
    oidc_jwks: str | None
    oidc_principals: str


@dataclass(frozen=True, slots=True)
class TokenHolder:
    """The holder of a valid token."""

    project_id: str
    principals: frozenset[str]
    scopes: ClassVar[frozenset[Scope]] = allowed({"search"})


class _Signatures(JWSRegistry):
    """Checks signatures by our algorithms alone, without a warning that one of them has a newer name."""

    max_header_length = MAX_BYTES

    def get_alg(self, name: str) -> Any:
        """See joserfc. The header was checked before."""
        return self.algorithms[name]


_SIGNATURES = _Signatures(strict_check_header=False)


class Tokens:
    """Checks tokens of one issuer for one audience. `metadata` tells programs where to get them."""

    def __init__(self, issuer: str, audience: str, keys: IssuerKeys, names: ClaimNames) -> None:
        self.metadata = ResourceMetadata(issuer, audience)
        self._keys, self._names = keys, names
        self._claims = JWTClaimsRegistry(
            leeway=SKEW_SECONDS,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
        )

    @classmethod
    def of(cls, options: OidcOptions) -> Tokens | None:
        """The verifier for tokens with these settings; None if they name no issuer."""
        if options.oidc_issuer is None or options.oidc_audience is None or options.oidc_jwks is None:
            return None
        names = ClaimNames.parsed(options.oidc_principals)
        return cls(options.oidc_issuer, options.oidc_audience, IssuerKeys(options.oidc_jwks), names)

    async def holder(self, token: str) -> TokenHolder:
        """Return the holder of a token. Raises `TokenInvalid`, `TokenUnusable` and `IssuerUnavailable`."""
        if len(token) > MAX_BYTES:
            raise TokenInvalid(f"The token has more than {MAX_BYTES:,} bytes; have its issuer put less into it.")
        algorithm, key_id = _header(token)
        key = await self._keys.find(key_id, algorithm)
        if key is None:
            raise TokenInvalid("No key of the issuer fits the token; get a new one from OIDC_ISSUER.")
        return self._holder(self._checked(token, key))

    def _checked(self, token: str, key: Key) -> Mapping[str, Any]:
        try:
            claims = jwt.decode(token, key, registry=_SIGNATURES).claims
            self._claims.validate(claims)
        except ExpiredTokenError:
            raise TokenInvalid("The token is expired; get a new one.") from None
        except (InvalidClaimError, MissingClaimError) as error:
            # one of those that are checked, and none that the token makes up
            claim = error.claim.partition(",")[0]
            raise TokenInvalid(
                f"The token is not for this service now: its claim `{claim}` is missing or wrong; "
                "compare it with OIDC_ISSUER, OIDC_AUDIENCE and the clock."
            ) from None
        except (JoseError, ValueError, RecursionError):
            raise TokenInvalid("The token's signature does not fit it; get a new one.") from None
        return claims

    def _holder(self, claims: Mapping[str, Any]) -> TokenHolder:
        principals: set[str] = set()
        for kind, name in self._names.principals:
            for value in _texts(claims, name):
                if len(principals) >= MAX_PRINCIPALS:
                    raise TokenUnusable(
                        f"The token names more than {MAX_PRINCIPALS:,} principals; have its issuer name fewer."
                    )
                principals.add(_principal(kind, value, name))
        return TokenHolder(self._project(claims), frozenset(principals))

    def _project(self, claims: Mapping[str, Any]) -> str:
        name = self._names.project_claim
        if name is None:
            return str(self._names.project)
        named = [*_texts(claims, name)]
        if len(named) != 1:
            raise TokenUnusable(
                f"The token names no project, or several: its claim `{name}` must be one text. "
                "The operator can set another claim in OIDC_PRINCIPALS, or one project for all by project:=ID."
            )
        try:
            project = addressable(named[0])
        except ValueError:
            project = ""
        if not (project.isprintable() and 0 < len(project) <= MAX_PROJECT):
            raise TokenUnusable(f"The claim `{name}` of the token is no id of a project; have its issuer correct it.")
        return project


def is_token(bearer: str) -> bool:
    """Whether a bearer has the shape of a token."""
    return _SHAPE.fullmatch(bearer) is not None


def _header(token: str) -> tuple[str, str | None]:
    """The algorithm and the id of the key, as the token says before anything is checked. Raises `TokenInvalid`.

    Other places of a key that it may name are never followed.
    """
    encoded = token.partition(".")[0]
    try:
        header = json.loads(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise TokenInvalid("The token's header cannot be read; get a new one.")
    algorithm, key_id = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in KINDS:
        raise TokenInvalid(f"The token is not signed by one of {', '.join(KINDS)}; have its issuer use one of them.")
    if not isinstance(key_id, str | None) or header.keys() & {"crit", "b64"}:
        raise TokenInvalid("The token's header asks for what is not supported; have its issuer leave it out.")
    return algorithm, key_id


def _texts(claims: Mapping[str, Any], name: str) -> Iterator[str]:
    """The texts of a claim, none if it is absent. Raises `TokenUnusable` if it is no text or stands elsewhere."""
    if not _elsewhere(claims).isdisjoint({name, name.partition(".")[0]}):
        raise TokenUnusable(f"The token says that its claim `{name}` stands elsewhere; have its issuer put it in.")
    if name == "email" and not _is_verified(claims.get("email_verified")):
        raise TokenUnusable("The issuer has not verified the email of the token; verify it, then get a new token.")
    value: object = claims.get(name)
    if value is None and "." in name:
        value = claims
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
    values = value if isinstance(value, list) else [] if value is None else [value]
    for each in values:
        if not isinstance(each, str):
            raise TokenUnusable(
                f"The claim `{name}` of the token is no text or list of texts; have its issuer correct it."
            )
        yield each


def _is_verified(stated: object) -> bool:
    """Whether an issuer does not deny that it verified an email. Some write the word in place of the value."""
    return stated is None or stated is True or stated == "true"


def _elsewhere(claims: Mapping[str, Any]) -> set[str]:
    """Claims that an issuer left out because they are long. Who took them for absent would evade lists that deny."""
    named = claims.get("_claim_names")
    left_out = {str(each) for each in named} if isinstance(named, dict) else set()
    return left_out | ({"groups"} if claims.get("hasgroups") in (True, "true") else set())


def _principal(kind: str, value: str, name: str) -> str:
    try:
        return checked_principal(f"{kind}:{value}")
    except ValueError:
        raise TokenUnusable(
            f"The claim `{name}` of the token has a value that is no principal: empty, too long, or with control "
            "characters; have its issuer correct it."
        ) from None
