"""The language detection model, in files that the processes of an installation share.

A process that unpacks it itself spends 0.6 s of processor time, and takes 60 MB.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_PREFIX = "languages-"
#: Seconds after which the files of other releases, or of a process that was killed, are removed.
_STALE_SECONDS = 3600.0
#: The lock of the process that unpacks the model, and how long others wait for it, because a frozen process keeps it.
_LOCK, _LOCK_SECONDS, _POLL_SECONDS = "languages.lock", 5.0, 0.02
#: The weights of features by language, the weights of languages, and their names. Then the automaton that finds
#: features: the offset of each state's transitions, the transitions, and the feature of each state.
_PARTS = ("weights", "offsets", "names", "rows", "moves", "features")

_Arrays = Mapping[str, NDArray[Any]]


def load(names: Collection[str], directory: Path | None) -> LanguageIdentifier:
    """Load the model for the languages `names`; all its languages would take twice the memory.

    It is mapped from files in `directory`. One process at a time creates missing files. A process without a directory,
    or with one that it cannot write to, has a model of its own.
    """
    return _identifier(_unpack(names) if directory is None else mapped(names, directory))


def mapped(names: Collection[str], directory: Path) -> _Arrays:
    """Map the model's arrays, and create their files first if they are missing; see `load`."""
    key = hashlib.sha256(" ".join([version("py3langid"), *sorted(names)]).encode()).hexdigest()[:16]
    path = directory / f"{_PREFIX}{key}"
    arrays = _map(path)
    if arrays is None:
        with _alone(directory):
            arrays = _map(path) or _unpacked(names, path)
    return arrays


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Wait for another process that creates the files, unless that takes too long."""
    with ExitStack() as held:
        with suppress(OSError):
            directory.mkdir(parents=True, exist_ok=True)
            _take(held.enter_context((directory / _LOCK).open("w")))
        yield


def _take(lock: TextIO) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL_SECONDS)
        else:
            return


def _unpacked(names: Collection[str], path: Path) -> _Arrays:
    arrays = _unpack(names)
    with suppress(OSError):
        _keep(path, arrays)
        return _map(path) or arrays
    return arrays


def _identifier(arrays: _Arrays) -> LanguageIdentifier:
    from py3langid.langid import LanguageIdentifier

    # views yield Python numbers, as the library's lists do, and forks do not copy them
    moves, features, rows = (arrays[name].data for name in ("moves", "features", "rows"))
    made = LanguageIdentifier(
        arrays["weights"], arrays["offsets"], arrays["names"].tolist(), moves, features, norm_probs=True, tk_row=()
    )
    made._rowbase = rows  # noqa: SLF001 - else the library makes a list of them
    return made


def _unpack(names: Collection[str]) -> _Arrays:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    full = LanguageIdentifier.from_model_file(MODEL_FILE)
    chosen = [number for number, name in enumerate(full.nb_classes) if name in names]
    return {
        "weights": full.nb_ptc[:, chosen].copy(),
        "offsets": full.nb_pc[chosen].copy(),
        "names": np.array([full.nb_classes[number] for number in chosen]),
        "rows": np.array(full._rowbase, dtype=np.uint32),  # noqa: SLF001 - see above
        "moves": np.asarray(full.tk_nextmove),
        "features": np.array(full.tk_output, dtype=np.int32),
    }


def _map(path: Path) -> _Arrays | None:
    """Map the arrays in files; None if any is missing or truncated."""
    try:
        return {name: np.asarray(np.load(path / f"{name}.npy", mmap_mode="r")) for name in _PARTS}
    except (OSError, ValueError):
        return None


def _keep(path: Path, arrays: _Arrays) -> None:
    """Write the arrays into files, which appear together. The first process wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(path, ignore_errors=True)
    for other in path.parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if other.stat().st_mtime < time.time() - _STALE_SECONDS:
                shutil.rmtree(other)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=path.parent))
    try:
        for name, array in arrays.items():
            np.save(made / f"{name}.npy", array, allow_pickle=False)
        made.rename(path)
    finally:
        shutil.rmtree(made, ignore_errors=True)
