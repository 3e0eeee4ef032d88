"""Flower for this machine: Celery's web page, answered under the machine's own names alone.

A page of another site that has its own name lead here would else read it, in the browser of whoever looks at both.
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

#: Flower's own variable, of one `user:password` or more.
VARIABLE = "FLOWER_BASIC_AUTH"
_USER = "foldex"


def login(home: Path, env: Mapping[str, str]) -> str:
    """The `user:password` that Flower asks for; "" where AUTH=off answers every program of this machine.

    It is the caller's own, else one that is made once and kept in `home`.
    """
    given = os.environ.get(VARIABLE)
    if given or env["AUTH"] == "off":
        return given or ""
    path = home / "run" / "flower.login"
    if not path.exists():
        write_private(path, f"{_USER}:{secrets.token_urlsafe(16)}")
    return path.read_text()


def main() -> None:
    """Run Flower with the options of its command line until SIGTERM."""
    from flower import command
    from flower.app import Flower
    from tornado.web import ErrorHandler

    from worker.app import app

    class LocalFlower(Flower):  # type: ignore[misc] # Flower has no types
        """Refuses requests for a name that is not this machine's."""

        def find_handler(self, request: Any, **options: Any) -> Any:
            """See Tornado."""
            if names_loopback(request.host_name.strip("[]")):
                return super().find_handler(request, **options)
            return self.get_handler_delegate(request, ErrorHandler, {"status_code": 403})

    keep_private()
    # as `celery flower` does
    command.apply_env_options()
    command.apply_options(sys.argv[0], sys.argv[1:])
    command.extract_settings()
    command.setup_logging()
    page = LocalFlower(capp=app, options=command.options, **command.settings)
    atexit.register(page.stop)
    signal.signal(signal.SIGTERM, command.sigterm_handler)
    page.start_http_server()
    page.start()
