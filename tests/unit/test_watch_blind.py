"""A folder that the system cannot watch is looked through again and again, until it can be watched."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from api.stack.programs import ROOT

#: A user of our own, whose inotify instances nobody else needs.
SOMEBODY = 61_357
#: Watches a folder while the user's inotify instances are all taken, then gives them back, and prints what is told.
PROGRAM = """
import ctypes, os, sys, time
from datetime import timedelta
from pathlib import Path
from uuid import uuid4
from schemas.source import ChunkSettings, EmbedderProfile
from schemas.tool import IndexSettings
from worker import watch
from worker.resources import Resources
from worker.settings import Settings
from worker.state.watch import QUIET, Watched

folder = Path(sys.argv[1])
os.setgid(int(sys.argv[2])), os.setuid(int(sys.argv[2]))
taken = []
while (handle := ctypes.CDLL(None).inotify_init()) >= 0:
    taken.append(handle)
watch.BLIND = 0.2
profile = EmbedderProfile.model_validate_json(sys.argv[3])
settings = IndexSettings(embedder=profile, chunks=ChunkSettings(), max_file_bytes=1000)
index = Watched(uuid4(), "p", {"kind": "local", "path": str(folder)}, settings)
watched = watch.LocalWatch(Resources(Settings(local_source_roots=[folder])), index)

def told(wanted, seconds=20):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if watched.look() == wanted:
            return True
        time.sleep(0.02)
    return False

print("blind", [told(timedelta(0)) for _ in range(3)], flush=True)
for handle in taken:
    os.close(handle)
print("ready", told(timedelta(0)) and watched._seen, flush=True)
(folder / "a.md").write_text("new")
print("heard", told(QUIET), flush=True)
watched.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="to take all inotify instances of a user takes another user")
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
