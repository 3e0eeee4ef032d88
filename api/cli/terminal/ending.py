"""Runs the command line to its exit status, whatever happens to it or to those who read what it prints."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EDQUOT, EFBIG, EIO, ENOSPC
from io import TextIOWrapper

import click

from api.cli.invocation import ERROR, FOUND, INTERRUPTED

#: What may go wrong where standard output leads to.
_UNWRITABLE = frozenset({EDQUOT, EFBIG, EIO, ENOSPC})

#: What to do about a database that does not answer, if no setting names it.
NO_DATABASE_URL = "start Foldex with `foldex up`, or set DATABASE_URL to another database"


def prepare_streams() -> None:
    """Let any text be printed: streams that are closed take it, and no encoding refuses a character."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - open until the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def run_to_end(command: click.Command) -> int:
    """Run a command, and return its exit status. Errors are printed."""
    try:
        status = _status(command)
        sys.stdout.flush()
    except OSError as error:
        return _unwritten(error)
    return status


def _status(command: click.Command) -> int:
    output = sys.stdout
    try:
        with _interruptible():
            result = command.main(prog_name="foldex", standalone_mode=False)
    except SystemExit as end:
        # click replaces a stream that nobody reads any more, as in `foldex search … | head -1`, which is not an error
        return FOUND if sys.stdout is not output else _code(end.code)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        _tell("Interrupted.", mark="")
        return INTERRUPTED
    except Exception as problem:  # whatever it is, a user gets a sentence instead of a traceback
        if isinstance(problem, OSError) and problem.errno in _UNWRITABLE and problem.filename is None:
            raise
        _explain(problem)
        return ERROR
    return _code(result)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C raise `KeyboardInterrupt` in the block, unless it is ignored. Outside, the process may end at once."""
    outside = signal.getsignal(signal.SIGINT)
    try:
        if outside is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, outside)


def _unwritten(error: OSError) -> int:
    """The status if standard output could not be written."""
    # Python would try once more at its end
    with suppress(OSError), open(os.devnull, "w", encoding="utf-8") as nothing:  # noqa: PTH123 - a device
        os.dup2(nothing.fileno(), sys.stdout.fileno())
    _tell(f"Standard output cannot be written: {error.strerror}; make space, or print to another place.")
    return ERROR


def _code(code: object) -> int:
    if isinstance(code, str):
        _tell(code, mark="")
    return code if isinstance(code, int) else ERROR if code else FOUND


def _tell(text: str, mark: str = "Error: ") -> None:
    with suppress(OSError):
        click.echo(f"{mark}{text}", err=True)


def _explain(problem: Exception) -> None:
    """Tell about an error in one sentence, unless it is a fault of Foldex."""
    from psycopg import OperationalError

    from schemas.errors import FoldexError

    if isinstance(problem, FoldexError):
        _tell(problem.message)
    elif isinstance(problem, OperationalError):
        # one line, as a log is read by its last one; who named no database knows nothing of its address
        named = os.environ.get("DATABASE_URL")
        said = f"check DATABASE_URL. {' '.join(str(problem).split())}" if named else f"{NO_DATABASE_URL}."
        _tell(f"The database does not answer; {said}")
    else:
        from traceback import print_exception

        print_exception(problem)
