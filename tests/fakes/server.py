"""What the servers of all fakes do alike."""

from __future__ import annotations

import sys
from http.server import ThreadingHTTPServer
from typing import Any


class Server(ThreadingHTTPServer):
    """Takes many connections at once, and is not told of clients that hang up."""

    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed or gave up hangs up, which is no news."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)
