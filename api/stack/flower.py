"""Runs Flower, Celery's web page, for requests under this machine's own names only.

This prevents DNS rebinding: a foreign site could point its own name here and read Flower in the user's browser.
"""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from api.stack.processes import write_private
from worker.machine.privacy import keep_private, names_loopback

#: Flower's own variable, with one or more `user:password`.
VARIABLE = "FLOWER_BASIC_AUTH"
_USER = "foldex"


def login(home: Path, env: Mapping[str, str]) -> str:
    """The `user:password` of Flower; "" with AUTH=off, where every program of this machine may call.

    Taken from the environment, or else created once and kept in `home`.
    """
    given = os.environ.get(VARIABLE)
    if given or env["AUTH"] == "off":
        return given or ""
    path = home / "run" / "flower.login"
    if not path.exists():
        write_private(path, f"{_USER}:{secrets.token_urlsafe(16)}")
    return path.read_text()


def main() -> None:
    """Run Flower with the command-line options until SIGTERM."""
    from flower import command
    from flower.app import Flower
    from tornado.web import ErrorHandler

    from worker.app import app

    class LocalFlower(Flower):  # type: ignore[misc] # Flower has no types
        """Rejects requests whose host name is not this machine's."""

        def find_handler(self, request: Any, **options: Any) -> Any:
            """See Tornado."""
            if names_loopback(request.host_name.strip("[]")):
                return super().find_handler(request, **options)
            return self.get_handler_delegate(request, ErrorHandler, {"status_code": 403})

    keep_private()
    # Flower would ask for a login, and accept none
    if not os.environ.get(VARIABLE):
        os.environ.pop(VARIABLE, None)
    # the same steps as `celery flower`
    command.apply_env_options()
    command.apply_options(sys.argv[0], sys.argv[1:])
    command.extract_settings()
    command.setup_logging()
    page = LocalFlower(capp=app, options=command.options, **command.settings)
    atexit.register(page.stop)
    signal.signal(signal.SIGTERM, command.sigterm_handler)
    page.start_http_server()
    page.start()
