"""What workers import before they fork works in their processes. These neither hang nor import it again.

Only searches of vectors load LanceDB: its import takes as long as the first write of a folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Forks processes one after another, as a pool does. Each writes into a table and searches it.
FORKS = """
import os, sys, threading
from worker.resources import preload
from worker.settings import Settings
from worker.stores import STORES, StoreOptions

settings = Settings()
preload(settings)
assert [thread.name for thread in threading.enumerate()] == ["MainThread"]
assert "lancedb" not in sys.modules
assert {"lance_namespace", "pyarrow"} <= sys.modules.keys()
count, together = int(sys.argv[1]), int(sys.argv[2])

def work(number):
    from tests.contract.stores import D, about, axis, near, row
    known = set(sys.modules)
    store, name = STORES["lancedb"].open(settings.values(StoreOptions), True, None), f"space_{number}"
    store.write(name, D, [row(number, axis(0), "words of it"), row(number + 1, axis(1), "others")])
    assert store.ids(name, None, 9) and "lancedb" not in sys.modules
    assert near(store, name, axis(1), limit=1) == [number + 1]
    assert about(store, name, "words") == [number]
    assert "lancedb" in sys.modules
    new = [name for name in set(sys.modules) - known if name.startswith(("lance_namespace", "pyarrow"))]
    assert not new, new

def child(number):
    pid = os.fork()
    if pid:
        return pid
    try:
        work(number)
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

for first in range(1, count, together):
    for pid in [child(10 * number) for number in range(first, min(first + together, count + 1))]:
        assert os.waitpid(pid, 0)[1] == 0
print("all ended")
"""


@pytest.mark.timeout(110)
def test_processes_use_the_store_whose_imports_they_share(tmp_path: Path) -> None:
    env = {
        **{name: value for name, value in os.environ.items() if name != "TURBOPUFFER_API_KEY"},
        "FOLDEX_HOME": str(tmp_path),
        "VECTOR_STORE": "lancedb",
        "DEFAULT_EMBEDDING_MODEL": "local/all-minilm-l6-v2",
    }
    count = os.environ.get("FORKS", "4")
    command = [sys.executable, "-c", FORKS, count, "2"]
    done = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=100 + int(count) * 5, check=False
    )
    assert done.stdout == "all ended\n", done.stderr
