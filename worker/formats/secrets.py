"""Detects, by content, files that contain only secrets: private keys, and registry settings with a token."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

#: Replaces a private key in the text of other files.
PLACEHOLDER = "[private key]"
#: Text that every private key contains, in UTF-8 and in UTF-16.
_SIGNS = tuple(
    sign.encode(encoding)
    for sign in ("PRIVATE KEY", "PuTTY-User-Key-File-", "AGE-SECRET-KEY-1")
    for encoding in ("utf-8", "utf-16-le", "utf-16-be")
)
#: Keys of settings whose value is a secret, by the name of the file.
_TOKENS = {
    ".npmrc": frozenset({"_authtoken", "_auth", "_password"}),
    ".pypirc": frozenset({"password"}),
    ".yarnrc.yml": frozenset({"npmauthtoken", "npmauthident"}),
}
_TOKEN = re.compile(
    r"(?:^|[:\s\"'])(_authToken|_auth|_password|password|npmAuthToken|npmAuthIdent)[\"']?"
    r"[ \t]*[=:][ \t]*[\"']?([^\s\"']+)",
    re.IGNORECASE | re.MULTILINE,
)
#: The beginning of a value that is a variable or a placeholder.
_PLACEHOLDERS = ("$", "%", "<", "{{", "your", "xxx", "***", "...")

#: The first and the last line of a block. SSH2 writes its dashes differently.
_MARK = re.compile(r"-{4,5} ?(BEGIN|END) ([A-Z0-9 ]{1,60}?) ?-{4,5}")
_PRIVATE = "PRIVATE KEY"
#: A key with fewer characters is a placeholder, as in documentation.
_MIN_KEY_CHARACTERS = 32
_KEY = re.compile(r"[A-Za-z0-9+/=]")
#: The beginnings of lines that programs write around blocks, and of comments.
_BESIDE = (
    *("#", ";", "//", "Bag Attributes", "Key Attributes", "subject=", "issuer=", "friendlyName:", "localKeyID:"),
    *("Microsoft ", "X509v3 ", "1.3.", "2.5.", "ssh-", "ecdsa-", "sk-"),
)
_LINE_ENDS = re.compile(r"(\r?\n)")
_AGE_KEY = re.compile(r"AGE-SECRET-KEY-1[0-9A-Z]{50,70}")


def may_be_secret(name: str, data: bytes) -> bool:
    """Return whether a file needs a full check, in a fraction of its time."""
    return _plain_name(name) in _TOKENS or any(sign in data for sign in _SIGNS)


def suspect(name: str, data: bytes, keep: Collection[str]) -> str | None:
    """Return the name of a file that a helper must check, because it may be a secret; None for any other one."""
    return name if "secrets" not in keep and may_be_secret(name, data) else None


def is_secret(name: str, data: bytes) -> bool:
    """Return whether a file contains a registry token, or consists of private keys and their surroundings."""
    text = _text(data)
    keys = _TOKENS.get(_plain_name(name))
    if keys and any(key.lower() in keys and _is_token(value) for key, value in _TOKEN.findall(text)):
        return True
    if text.startswith("PuTTY-User-Key-File-"):
        return "Private-Lines:" in text
    return _is_key_file(text)


def without_keys(text: str) -> str:
    """Replace each private key of a text by a placeholder. Lengths and lines stay, so positions do too."""
    if _PRIVATE not in text:
        return text
    parts, done = list[str](), 0
    for _, _, label, start, end in _blocks(text):
        if _PRIVATE in label and _holds_key(text[start:end]):
            parts += [text[done:start], _blanked(text[start:end])]
            done = end
    return "".join([*parts, text[done:]])


def _blanked(key: str) -> str:
    lines = _LINE_ENDS.split(key)
    first = next((number for number, line in enumerate(lines) if len(line) >= len(PLACEHOLDER)), -1)
    # every other part is an end
    blank = [(PLACEHOLDER if number == first else "").ljust(len(line)) for number, line in enumerate(lines)]
    blank[1::2] = lines[1::2]
    return "".join(blank)


def _is_key_file(text: str) -> bool:
    rest, done, keys = list[str](), 0, 0
    for start, end, label, key_start, key_end in _blocks(text):
        rest.append(text[done:start])
        done = end
        keys += _PRIVATE in label and _holds_key(text[key_start:key_end])
    for line in "".join([*rest, text[done:]]).splitlines():
        if _AGE_KEY.fullmatch(line.strip()):
            keys += 1
        elif line.strip() and not line.strip().startswith(_BESIDE):
            return False
    return keys > 0


def _blocks(text: str) -> Iterator[tuple[int, int, str, int, int]]:
    """Yield each block: its start, end and label, and the start and end of its content."""
    begun: re.Match[str] | None = None
    for mark in _MARK.finditer(text):
        if mark[1] == "BEGIN":
            begun = mark
        elif begun and begun[2] == mark[2]:
            yield begun.start(), mark.end(), mark[2], begun.end(), mark.start()
            begun = None
    if begun:
        yield begun.start(), len(text), begun[2], begun.end(), len(text)


def _holds_key(content: str) -> bool:
    """Return whether the text between the marks is a key rather than a placeholder of dots or a name."""
    lines = content.replace("\\n", "\n").splitlines()
    # a line with a colon is a header, such as an encrypted key's
    body = "".join(line.strip() for line in lines if ":" not in line)
    characters = len(_KEY.findall(body))
    return characters >= _MIN_KEY_CHARACTERS and 10 * characters >= 8 * len(body)


def _is_token(value: str) -> bool:
    return not value.lower().startswith(_PLACEHOLDERS)


def _plain_name(name: str) -> str:
    return name.replace("\\", "/").rpartition("/")[2].lower()


def _text(data: bytes) -> str:
    is_wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    return data.decode("utf-16" if is_wide else "utf-8", "replace").lstrip("\ufeff")
