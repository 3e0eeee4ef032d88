"""A folder that the system cannot watch is scanned repeatedly, until it can be watched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from api.stack.record import ROOT

#: A separate user, whose inotify instances nobody else needs.
SOMEBODY = 61_357
#: Watches a folder while the user's inotify instances are all taken, then frees them, and prints the events.
PROGRAM = """
import ctypes, os, sys, time
from datetime import timedelta
from pathlib import Path
from uuid import uuid4
from schemas.content.source import ChunkSettings, EmbedderProfile, LocalSource
from schemas.tool import IndexSettings
from worker.sources.kind import WatchAccess
from worker.sources.registry import watch_source
from worker.sources.watching import local
from worker.resources import Resources
from worker.settings import Settings
from worker.state.index.changes import QUIET_OF_PATHS, WatchedIndex

folder = Path(sys.argv[1])
os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
taken = []
while (handle := ctypes.CDLL(None).inotify_init()) >= 0:
    taken.append(handle)
local.UNWATCHED_SECONDS = 0.2
profile = EmbedderProfile.model_validate_json(sys.argv[3])
settings = IndexSettings(embedder=profile, chunks=ChunkSettings(), max_file_bytes=1000)
index = WatchedIndex(uuid4(), "p", LocalSource(kind="local", path=str(folder)), settings)
resources = Resources(Settings(auth="off", local_source_roots=[folder]))
list_watched = watch_source(WatchAccess(resources.access("p"), lambda: None, None), index)

def told(wanted, seconds=20):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        noticed = list_watched.look()
        if noticed and noticed.quiet == wanted:
            return True
        time.sleep(0.02)
    return False

print("blind", [told(timedelta(0)) for _ in range(3)], flush=True)
for handle in taken:
    os.close(handle)
print("ready", told(timedelta(0)) and list_watched._was_ready, flush=True)
(folder / "a.md").write_text("new")
print("heard", told(QUIET_OF_PATHS), flush=True)
list_watched.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="run as root: it takes all inotify instances of another user")
def test_a_folder_without_inotify_is_looked_through_and_heard_again_later() -> None:
    profile = '{"model": "m", "dimensions": 8}'
    # pytest's own directories are closed to others
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, SOMEBODY, SOMEBODY)
        command = [sys.executable, "-c", PROGRAM, folder, str(SOMEBODY), profile]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    warnings = [line for line in done.stdout.splitlines() if "max_user_instances" in line]
    said = [line for line in done.stdout.splitlines() if line not in warnings]
    assert said == ["blind [True, True, True]", "ready True", "heard True"], done.stderr
    assert len(warnings) > 2


#: Creates more directories than the namespace has watches for, and less than a minute later changes a file there.
CROWDED = """
import sys, time
from datetime import timedelta
from pathlib import Path
from tests.unit.worker.sources.watching.test_local import told, watched
from worker.sources.watching import local

folder = Path(sys.argv[1])
Path("/proc/sys/user/max_inotify_watches").write_text("20")
local.UNWATCHED_SECONDS = 0.2
with watched(folder, folder / "home") as looked:
    for number in range(40):
        (folder / str(number)).mkdir()
    while told(looked).quiet != timedelta(0):
        pass
    print("blind", [told(looked).quiet == timedelta(0) for _ in range(3)])
    Path("/proc/sys/user/max_inotify_watches").write_text("200")
    while not looked._was_ready:
        told(looked)
    (folder / "39" / "deep.md").touch()
    print("heard", told(looked).quiet != timedelta(0))
"""
#: A separate user namespace has its own number of watches.
NAMESPACE = ["unshare", "--user", "--map-root-user"]


def test_directories_that_are_made_beyond_the_systems_handles_are_looked_through(tmp_path: Path) -> None:
    limit = "cat /proc/sys/user/max_inotify_watches"
    if shutil.which("unshare") is None or subprocess.run([*NAMESPACE, "sh", "-c", limit], check=False).returncode:
        pytest.skip("install util-linux and allow user namespaces to run (sysctl kernel.unprivileged_userns_clone=1)")
    command = [*NAMESPACE, sys.executable, "-c", CROWDED, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    said = [line for line in done.stdout.splitlines() if "max_user_watches" not in line]
    assert said == ["blind [True, True, True]", "heard True"], done.stderr


#: Watches a folder with one closed directory, changes a file in each of the others, and then opens that one.
CLOSED = """
import os, sys
from pathlib import Path
from tests.unit.worker.sources.watching.test_local import paths, renewed, told, watched

folder = Path(sys.argv[1])
os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
with watched(folder, folder / "home") as looked:
    closed = [directory for directory in folder.iterdir() if not os.access(directory, os.R_OK)]
    for directory in [*({*folder.iterdir()} - {*closed}), *closed]:
        if directory in closed:
            before = looked._folder
            directory.chmod(0o700)
            renewed(looked, before)
        (directory / "a.md").touch()
        print(told(looked) == paths(f"{directory.name}/a.md"), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="run as root: it watches as another user")
def test_a_directory_that_may_not_be_read_hides_no_other_and_is_watched_once_it_may() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, SOMEBODY, SOMEBODY)
        for number in range(8):
            Path(folder, str(number)).mkdir()
            os.chown(Path(folder, str(number)), SOMEBODY, SOMEBODY)
        # in the order of the system, so that others come after it
        closed = Path(folder, os.listdir(folder)[0])  # noqa: PTH208 - the order is what is wanted
        closed.chmod(0o000)
        command = [sys.executable, "-c", CLOSED, folder, str(SOMEBODY)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.stdout.split() == ["True"] * 8, done.stderr
