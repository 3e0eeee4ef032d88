"""Links that open the page as the owner of an embedded stack, and the sessions that they open.

A link's token works once, and opens a session of its own. The file has only hashes, and only its owner can read it.
Each start of the stack deletes all links and sessions.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from pydantic import BaseModel, ValidationError

from worker.machine.owned_file import read_owned, rewrite_owned, write_owned

#: Maximum number of links and sessions; the oldest are deleted.
MAX_LINKS = 16
MAX_SESSIONS = 64
#: Bytes of a token, from the system's source of randomness.
TOKEN_BYTES = 32


class _Kept(BaseModel):
    """Hashes of tokens, oldest first."""

    links: list[str] = []
    sessions: list[str] = []


def page_links_file(home: Path) -> Path:
    """Return the path of an installation's file with links and sessions."""
    return home / "run" / "page.json"


def forget_links(file: Path) -> None:
    """Delete all links and sessions. Raises `OSError`."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_owned(file, b"{}")


def new_link(file: Path) -> str:
    """Create a link and return its token. Raises `OSError` if it cannot be stored."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    _rewrite(file, lambda kept: _Kept(links=[*kept.links, _hashed(token)][-MAX_LINKS:], sessions=kept.sessions))
    return token


def open_session(file: Path, link: str) -> str | None:
    """Open a link's only session and return its token; None for any other text. Raises `OSError`."""
    hashed, session = _hashed(link), secrets.token_urlsafe(TOKEN_BYTES)
    if not _holds(_parsed(read_owned(file)).links, hashed):
        return None

    def exchanged(kept: _Kept) -> _Kept:
        # another call may just have used it
        if not _holds(kept.links, hashed):
            return kept
        return _Kept(
            links=[each for each in kept.links if each != hashed],
            sessions=[*kept.sessions, _hashed(session)][-MAX_SESSIONS:],
        )

    return session if _rewrite(file, exchanged) else None


def is_session(file: Path, session: str) -> bool:
    """Return whether a link opened this session since the stack was started."""
    return _holds(_parsed(read_owned(file)).sessions, _hashed(session))


def _rewrite(file: Path, change: Callable[[_Kept], _Kept]) -> bool:
    def changed(before: bytes) -> bytes:
        kept = _parsed(before)
        after = change(kept)
        return before if after == kept else after.model_dump_json().encode()

    return rewrite_owned(file, changed)


def _parsed(data: bytes) -> _Kept:
    with suppress(ValidationError):
        return _Kept.model_validate_json(data)
    return _Kept()


def _holds(hashes: list[str], hashed: str) -> bool:
    """Return whether a hash is in a list, in constant time."""
    return sum(hmac.compare_digest(each.encode(), hashed.encode()) for each in hashes) > 0


def _hashed(token: str) -> str:
    return sha256(token.encode(errors="surrogatepass")).hexdigest()
