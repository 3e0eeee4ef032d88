"""Forks Python programs from one process that has imported what they share: `python -m api.stack.fork_server`.

The programs share the memory of these imports, and need not repeat them. Requests arrive on a socket, which is standard
input. Each is a JSON object with the fields of `ForkRequest`. It brings three descriptors: those of the log, of the
program's lock and of a socket.

Each program becomes a child of the caller, which must be a subreaper. It sends its process id on its socket, and begins
once it gets a byte back. If the caller has closed the socket, the program ends. So the caller knows every program.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import socket
import sys
import time
from pathlib import Path
from signal import Signals

from api.stack.forks import GO, MAX_REQUEST_BYTES, ForkRequest
from worker.machine.parent import end_with
from worker.machine.privacy import keep_private
from worker.resources import import_store_dependencies
from worker.settings import Settings

#: What more than one program imports, besides the dependencies of the store.
SHARED = (
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "fastapi_offline",
    "kombu.transport.redis",
    "uvicorn",
)
#: Maximum seconds that a program waits for its new parent, and for `GO`.
_HANDOVER_SECONDS = 10.0
#: Characters that Linux keeps of a name.
_NAME_CHARACTERS = 15
_PR_SET_NAME, _PR_SET_DUMPABLE = 15, 4
#: The number of glibc's option that MALLOC_ARENA_MAX sets.
_M_ARENA_MAX = -8


def main() -> None:
    """Serve requests until the socket is closed."""
    keep_private()
    own = _open_handles()
    with socket.socket(fileno=os.dup(0)) as requests:
        _import_shared()
        found = _next_program(requests)
    if found is not None:
        # a program must not hold the lock of this server
        for handle in own:
            os.close(handle)
        _run(*found)


def _open_handles() -> set[int]:
    """Open descriptors besides those of the standard streams."""
    listed = [*Path("/proc/self/fd").iterdir()]
    # the descriptor of the listing itself is closed by now
    return {int(handle.name) for handle in listed if handle.exists()} - {0, 1, 2}


def _import_shared() -> None:
    """Import what programs share, and nothing that reads settings: each program has settings of its own."""
    gc.disable()
    for name in SHARED:
        importlib.import_module(name)
    import_store_dependencies(Settings())
    gc.enable()
    gc.collect()
    # a garbage collection in a program would write to every object, and so copy the pages that all share
    gc.freeze()


def _next_program(requests: socket.socket) -> tuple[ForkRequest, list[int]] | None:
    """Fork programs until the end of requests. Returns in each program with its request and descriptors."""
    while True:
        data, handles, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 3)
        if not data:
            return None
        # the process in between ends at once, so the caller becomes the program's parent
        between = os.fork()
        if between == 0:
            if os.fork() == 0:
                return ForkRequest(**json.loads(data)), handles
            os._exit(0)
        os.waitpid(between, 0)
        for handle in handles:
            os.close(handle)


def _run(request: ForkRequest, handles: list[int]) -> None:
    """Become the program and run it to its end."""
    log, lock, caller = handles
    _become(request, log)
    with socket.socket(fileno=caller) as talk:
        talk.settimeout(_HANDOVER_SECONDS)
        talk.send(str(os.getpid()).encode())
        if talk.recv(len(GO)) != GO:
            raise SystemExit("the caller gave up before its program began")
    os.set_inheritable(lock, True)
    kind, what, *arguments = request.arguments
    if kind == "-m":
        sys.argv = [what, *arguments]
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [kind, *arguments]
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - as `python -c`


def _become(request: ForkRequest, log: int) -> None:
    # a session of its own shields it from the terminal's Ctrl-C
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDONLY)
    for handle, target in ((nowhere, 0), (log, 1), (log, 2)):
        os.dup2(handle, target)
    os.close(nowhere)
    os.close(log)
    os.chdir(request.cwd)
    os.nice(request.nice)
    os.environ.clear()
    os.environ.update(request.env)
    time.tzset()
    libc = ctypes.CDLL(None)
    # malloc reads its variables before main
    if "MALLOC_ARENA_MAX" in request.env and hasattr(libc, "mallopt"):
        libc.mallopt(_M_ARENA_MAX, int(request.env["MALLOC_ARENA_MAX"]))
    libc.prctl(_PR_SET_NAME, request.name.encode()[:_NAME_CHARACTERS], 0, 0, 0)
    # as after exec: each program protects itself
    libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    deadline = time.monotonic() + _HANDOVER_SECONDS
    while os.getppid() != request.parent and time.monotonic() < deadline:
        time.sleep(0.001)
    end_with(request.parent, Signals(request.orphaned))


if __name__ == "__main__":
    main()
