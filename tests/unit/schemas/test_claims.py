"""How settings say which claims of a token name whom."""

from __future__ import annotations

import pytest

from schemas.claims import ClaimNames
from schemas.errors import Invalid
from worker.settings import Settings


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "user=email,group=groups,project=project_id",
            ClaimNames((("user", "email"), ("group", "groups")), "project_id", None),
        ),
        (" user = email , project:= acme ", ClaimNames((("user", "email"),), None, "acme")),
        (
            "role=a.b,role=https://x.org/r,project:=a",
            ClaimNames((("role", "a.b"), ("role", "https://x.org/r")), None, "a"),
        ),
    ],
)
def test_names_are_read(text: str, names: ClaimNames) -> None:
    assert ClaimNames.parsed(text) == names
    assert Settings(oidc_principals=text).oidc_principals == text


@pytest.mark.parametrize(
    "text",
    [
        "user",
        "user=",
        "=email",
        "User=email,project=p",
        "user:=ann,project=p",
        "user=email",
        "project=p",
        "user=email,project=p,project:=q",
        "user=email,,project=p",
        "user=email,project=p,",
        "*=email,project=p",
    ],
)
def test_what_names_nothing_is_refused_with_the_setting(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(write|no claim|nothing|the project)"):
        ClaimNames.parsed(text)
    with pytest.raises(Invalid, match=r"^OIDC_PRINCIPALS is "):
        Settings(oidc_principals=text)


@pytest.mark.parametrize("left_out", ["oidc_issuer", "oidc_audience", "oidc_jwks"])
def test_an_issuer_needs_all_that_checks_its_tokens(left_out: str) -> None:
    given = {"oidc_issuer": "https://i", "oidc_audience": "foldex", "oidc_jwks": "https://i/keys"}
    assert Settings(**given).oidc_audience == "foldex"
    with pytest.raises(Invalid, match=f"set {left_out.upper()} too"):
        Settings(**{name: value for name, value in given.items() if name != left_out})
