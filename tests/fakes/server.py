"""What the servers of all fakes have in common."""

from __future__ import annotations

import sys
from http.server import ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """Accepts many connections at once, and does not report clients that hang up."""

    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connection errors: a client that was killed or gave up hangs up."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
