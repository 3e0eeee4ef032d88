"""The address that opens the page of an embedded stack as its owner."""

from __future__ import annotations

import html
from pathlib import Path

from api.stack.record import url_of
from worker.machine.owned_file import write_owned
from worker.machine.page_links import new_link, page_links_file


def page_address(home: Path, env: dict[str, str]) -> str:
    """The page of the stack in `home`. With `AUTH=off` it is a link, which opens a session once. Raises `OSError`."""
    address = f"{url_of(env)}/"
    # the fragment of an address reaches no server, no log and no other site
    return f"{address}#/?link={new_link(page_links_file(home))}" if env["AUTH"] == "off" else address


def write_redirect(home: Path, address: str) -> str:
    """The address of a file that leads to another address. Other users see what a browser is started with."""
    file = home / "run" / "open.html"
    write_owned(file, f'<meta http-equiv="refresh" content="0; url={html.escape(address)}">\n'.encode())
    return file.absolute().as_uri()
