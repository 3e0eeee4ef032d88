"""Files that are secrets are left out by their names or their content; a text about secrets is not."""

from __future__ import annotations

import base64
import random
from typing import get_args

import pytest

from schemas.tool import IgnoredKind
from tests.pumps import grows_too_fast
from worker.formats.secrets import PLACEHOLDER, is_secret, may_be_secret, without_keys
from worker.ignore import Rules, Trail

CHANCE = random.Random(7)


def block(label: str, size: int = 1200, ends: str = "\n") -> str:
    """A block that looks like one of a program, with random bytes in it."""
    body = base64.encodebytes(CHANCE.randbytes(size)).decode().replace("\n", "")
    lines = [body[start : start + 64] for start in range(0, len(body), 64)]
    return ends.join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""])


KEY, CERTIFICATE = block("PRIVATE KEY"), block("CERTIFICATE")
ENCRYPTED = KEY.replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123\n\n", 1)

BAG = "Bag Attributes\n    friendlyName: a\n    localKeyID: 01 02\nKey Attributes: <No Attributes>\n"


def left_out(path: str, *, keep: tuple[str, ...] = ()) -> str | None:
    trail = Trail(Rules(keep=keep), str, lambda _: ())
    *folders, name = path.split("/")
    return pruned[1] + "/" if (pruned := trail.pruned(tuple(folders))) else trail.ignored(name)


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".env",
            "app/.env",
            ".env.local",
            ".env.production",
            ".env.test.local",
            "prod.env",
            "config/db.env",
            ".env-old",
        ),
        *(
            ".env.bak",
            ".envrc",
            ".netrc",
            "_netrc",
            ".pgpass",
            "pgpass.conf",
            ".aws/credentials",
            "home/.aws/credentials",
        ),
        *(
            ".git-credentials",
            ".config/git/credentials",
            ".kube/config",
            "a/.kube/config",
            "kubeconfig",
            "x.kubeconfig",
        ),
        *(".docker/config.json", ".my.cnf", ".htpasswd", ".vault-token", ".cargo/credentials.toml", ".s3cfg"),
        *("release.jks", "debug.keystore", "cert.p12", "cert.pfx", "passwords.kdbx", "putty.ppk", "login.keychain-db"),
        *("terraform.tfstate", "infra/terraform.tfstate.backup", "terraform.tfstate.d/dev/terraform.tfstate"),
        "terraform.tfstate.1700000000.backup",
    ],
)
def test_a_file_of_secrets_is_known_by_its_name(path: str) -> None:
    assert left_out(path) == "secrets"
    assert left_out(path, keep=("secrets",)) is None


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".env.example",
            ".env.sample",
            ".env.template",
            ".env.dist",
            "app/.env.local.example",
            "example.env",
            ".env.tpl",
        ),
        *(".env-example", ".env_sample", "prod.example.env", ".env.example.local", ".env.schema", ".env.defaults"),
        *("env.py", "environment.env.md", ".env/lib/a.py", "src/env.d.ts", ".env.d.ts", "envrc.md", ".environment"),
        *("credentials", "aws/credentials.md", "docs/kube/config", "config", "docs/.kube/config.md", ".gitconfig"),
        *(
            "main.tf",
            "prod.tfvars",
            "tfstate.md",
            "keystore.py",
            "Keystore.java",
            ".npmrc",
            ".pypirc",
            "id_rsa",
            "a.pem",
        ),
        "docker/config.json",
    ],
)
def test_what_only_sounds_like_one_is_indexed(path: str) -> None:
    assert left_out(path) is None


def test_an_ignore_file_takes_one_in_and_no_exception_takes_in_what_is_left_out_for_another_reason() -> None:
    trail = Trail(Rules(), str, lambda _: ((".foldexignore", b"!.env\n"),))
    trail.pruned(())
    assert (trail.ignored(".env"), trail.ignored(".env.local")) == (None, "secrets")
    assert left_out("node_modules/.env.example") == "dependencies/"
    assert left_out(".git/.env.example") == "vcs/"
    assert "secrets" in get_args(IgnoredKind)


SECRET_FILES = {
    "one key": ("id_rsa", KEY),
    "with an old label": ("key.pem", block("RSA PRIVATE KEY")),
    "of an elliptic curve": ("ec.key", block("EC PARAMETERS", 10) + block("EC PRIVATE KEY", 120)),
    "of 32 bytes": ("ed25519.pem", block("PRIVATE KEY", 48)),
    "of OpenSSH": ("id_ed25519", block("OPENSSH PRIVATE KEY", 300)),
    "with a password": ("key.pem", ENCRYPTED),
    "with a password in the label": ("key.pem", block("ENCRYPTED PRIVATE KEY")),
    "of PGP": ("key.asc", block("PGP PRIVATE KEY BLOCK").replace("-----\n", "-----\nVersion: GnuPG v1\n\n", 1)),
    "of SSH2": (
        "key",
        KEY.replace("-----BEGIN ", "---- BEGIN SSH2 ENCRYPTED ")
        .replace("-----", " ----")
        .replace(" ----END ", "---- END SSH2 ENCRYPTED "),
    ),
    "of PuTTY": ("key.txt", "PuTTY-User-Key-File-3: ssh-rsa\nPublic-Lines: 1\nAAAA\nPrivate-Lines: 1\nAAAA\n"),
    "of age": ("key.txt", "# created: 2026\n# public key: age1x\nAGE-SECRET-KEY-1" + "Q" * 58 + "\n"),
    "with its certificate": ("server.pem", CERTIFICATE + KEY),
    "with attributes of openssl": ("a.pem", f"{BAG}{KEY}subject=CN = a\nissuer=CN = b\n{CERTIFICATE}"),
    "with comments": ("a.key", f"# production, do not share\n; nor copy\n\n{KEY}\n"),
    "with Windows's line ends": ("a.key", block("PRIVATE KEY", ends="\r\n")),
    "after a byte order mark": ("a.key", "\ufeff" + KEY),
    "that was cut": ("a.key", KEY[:900]),
    "with blanks before it": ("a.key", "\n\n  " + KEY.replace("\n", "\n  ")),
    "with a public key": ("a.key", f"ssh-rsa AAAAB3NzaC1yc2E ann@host\n{KEY}"),
    "a token of npm": (".npmrc", "registry=https://r\n//packages.example/:_authToken=npm_aBcD\n"),
    "a token of npm in quotes": ("web/.npmrc", '_authToken = "abc"\n'),
    "a password of npm": (".npmrc", "//r/:username=a\n//r/:_password=c2VjcmV0\n"),
    "old auth of npm": (".npmrc", "_auth=YTpi\nalways-auth=true\n"),
    "a token of PyPI": (".pypirc", "[pypi]\nusername = __token__\npassword = pypi-AgEIcHl\n"),
    "a password of PyPI": (".pypirc", "[a]\npassword:x\n"),
    "a token of yarn": (".yarnrc.yml", 'npmScopes:\n  a:\n    npmAuthToken: "abc"\n'),
}


@pytest.mark.parametrize(("name", "text"), SECRET_FILES.values(), ids=SECRET_FILES)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_file_of_secrets_is_known_by_its_content(name: str, text: str, encoding: str) -> None:
    data = text.encode(encoding)
    assert may_be_secret(name, data)
    assert is_secret(name, data)


PLAIN_FILES = {
    "a certificate": ("a.pem", CERTIFICATE),
    "a public key": ("a.pub", "ssh-rsa AAAAB3NzaC1yc2E ann@host\n"),
    "a block of a public key": ("a.pem", block("PUBLIC KEY")),
    "a tutorial": ("tls.md", f"# TLS\n\nMake a key as follows.\n\n```\n{KEY}```\n\nThen ask for a certificate.\n"),
    "a short tutorial": ("tls.md", f"This is what a key looks like:\n\n{KEY}"),
    "a list": ("tls.md", f"1. Make this:\n{KEY}"),
    "a fixture": ("test_tls.py", f'KEY = """\n{KEY}"""\n\n\ndef test_it():\n    assert load(KEY)\n'),
    "a config": ("service.json", '{"private_key": "' + KEY.replace("\n", "\\n") + '"}'),
    "a placeholder": ("a.pem", "-----BEGIN PRIVATE KEY-----\n<your key>\n-----END PRIVATE KEY-----\n"),
    "dots": ("a.pem", "-----BEGIN PRIVATE KEY-----\nMIIE...\n...\n-----END PRIVATE KEY-----\n"),
    "marks alone": ("a.pem", "-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"),
    "a constant": ("pem.go", 'const begin = "-----BEGIN PRIVATE KEY-----"\n'),
    "words": ("a.txt", "PRIVATE KEY\n"),
    "a variable for npm": (".npmrc", "//packages.example/:_authToken=${NPM_TOKEN}\n"),
    "settings of npm": (".npmrc", "save-exact=true\nregistry=https://packages.example/\n"),
    "an empty token": (".npmrc", "//r/:_authToken=\n"),
    "a PyPI without passwords": (".pypirc", "[distutils]\nindex-servers =\n    pypi\n\n[pypi]\nusername = __token__\n"),
    "a variable for PyPI": (".pypirc", "[pypi]\npassword = %(TOKEN)s\n"),
    "settings of yarn": (".yarnrc.yml", "nodeLinker: node-modules\n"),
    "a token in code": ("app.py", 'TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"\npassword = "x"\n'),
    "a token of npm in a text": ("ci.md", "//packages.example/:_authToken=npm_aBcD\n"),
}


@pytest.mark.parametrize(("name", "text"), PLAIN_FILES.values(), ids=PLAIN_FILES)
def test_any_other_file_is_indexed(name: str, text: str) -> None:
    assert not is_secret(name, text.encode())


@pytest.mark.parametrize(
    "text",
    [
        *(text for name, text in PLAIN_FILES.values() if name in {"tls.md", "test_tls.py", "service.json"}),
        "key: |\n  " + KEY.replace("\n", "\n  ") + "\nnext: 1\n",
        "k = (\n" + "".join(f'    "{line}\\n"\n' for line in KEY.splitlines()) + ")\n",
        "a\r\n" + block("RSA PRIVATE KEY", ends="\r\n") + "b\r\n",
        f"first\n{KEY}\nsecond\n{ENCRYPTED}\nthird {CERTIFICATE}",
        f"a key without its end\n{KEY[:700]}",
    ],
)
def test_a_placeholder_stands_for_the_key_alone(text: str) -> None:
    bodies = set(KEY.splitlines()[1:-1])
    found = without_keys(text)
    assert len(found) == len(text)
    assert [len(line) for line in found.split("\n")] == [len(line) for line in text.split("\n")]
    assert PLACEHOLDER in found
    assert not any(line[:40] in found for line in bodies)
    # what is around it stays
    lines = (line for line in text.split("\n") if "PRIVATE KEY" not in line and ": " not in line)
    around = [line for line in lines if " " in line.strip() and len(line) < 60]
    assert all(line in found for line in around)
    assert found.count("CERTIFICATE-----") == text.count("CERTIFICATE-----")


@pytest.mark.parametrize(
    ("name", "text"), [PLAIN_FILES[it] for it in ("dots", "marks alone", "a constant", "a certificate")]
)
def test_a_text_without_a_key_stays_as_it_is(name: str, text: str) -> None:
    assert without_keys(text) == text, name


@pytest.mark.parametrize(
    "piece",
    ["-----BEGIN PRIVATE KEY-----\n", "-----BEGIN A-----", "-", "----- BEGIN", "_auth", "_auth = ", "A" * 64 + "\n"],
)
def test_a_hostile_text_takes_linear_time(piece: str) -> None:
    def look(text: str) -> object:
        return without_keys(text), is_secret(".npmrc", text.encode())

    assert not grows_too_fast(look, lambda size: "PRIVATE KEY" + piece * (size // len(piece)), 1_000_000)
