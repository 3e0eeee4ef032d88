"""A TCP proxy that can go silent: connections stay open, new ones are accepted, and no data passes.

It can also refuse: new connections end at once, as those to a server that starts. `cut` ends those that are open.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self


class Silence:
    """Forwards to a server on this machine until frozen; when thawed, also forwards what waited."""

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self._passes = threading.Event()
        self._passes.set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._sockets: list[socket.socket] = []
        self._lock, self._is_over = threading.Lock(), False
        #: Number of accepted connections.
        self.made = 0
        self.refuses = False

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        port: int = self._listener.getsockname()[1]
        return port

    def freeze(self) -> None:
        """Forward nothing; the kernel still accepts what is sent."""
        self._passes.clear()

    def thaw(self) -> None:
        """Forward what waited and everything that follows."""
        self._passes.set()

    def cut(self) -> None:
        """End all open connections, as a server that dies."""
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.thaw()
        with self._lock:
            self._is_over = True
        for one in [self._listener, *self._sockets]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.made += 1
                if self.refuses:
                    client.close()
                    continue
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._passes.wait()
        try:
            server = socket.create_connection(self._server)
        except OSError:
            client.close()
            return
        with self._lock:
            is_late = self._is_over
            if not is_late:
                self._sockets += [client, server]
        if is_late:
            client.close()
            server.close()
            return
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._passes.wait()
                target.sendall(data)
        self._passes.wait()
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
