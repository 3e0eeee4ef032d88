"""Files that were made to stop the service: an estimate, a grep and a run over them leave it to others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from uuid import uuid4

import httpx

from tests.containers import large_directory, long_number, zipped
from tests.service import PROJECT, TOOLS, Service, checked

#: Both kinds of containers.
OPENED = {"containers": ["archives", "attachments"]}
#: Seconds that an answer may take at the most meanwhile. A parser in the API would stop it for minutes.
MOST_SECONDS = 3.0


@contextmanager
def asked_all_the_time(running: Service) -> Iterator[list[float]]:
    """Ask whether the API lives, and note the seconds of each answer."""
    seconds, over = list[float](), Event()

    def ask() -> None:
        with httpx.Client(base_url=running.client.base_url, timeout=60) as client:
            while not over.is_set():
                began = time.monotonic()
                client.get("/healthz").raise_for_status()
                seconds.append(time.monotonic() - began)
                time.sleep(0.02)

    thread = Thread(target=ask)
    thread.start()
    try:
        yield seconds
    finally:
        over.set()
        thread.join()


def test_hostile_containers_delay_nobody_else(running: Service, root: Path) -> None:
    folder, other = root / uuid4().hex, root / uuid4().hex
    for each in (folder, other):
        each.mkdir()
    (folder / "number.tar.gz").write_bytes(long_number(30_000_000))
    (folder / "directory.zip").write_bytes(large_directory(16_000_000))
    (folder / "good.zip").write_bytes(zipped({"a.md": "# Tulips\n\nThe café waters them.".encode()}))
    (other / "b.md").write_text("# Ovens\n\nThe oven is broken.")
    with asked_all_the_time(running) as seconds:
        body = {"project_id": PROJECT, "source": {"kind": "local", "path": str(folder)}, "dry_run": True}
        answer = running.client.post(TOOLS, json={**body, "config": OPENED}, timeout=120)
        estimated = checked(answer, 200)
        # on a busy machine the clock may end it first
        assert sum(estimated["skipped"].values()) == 2
        assert any("not opened in time: 1." in note for note in estimated["notes"])
        tool = running.local_tool(folder, config=OPENED)
        # a container that takes long takes the time of a grep over its own folder
        running.post(f"{TOOLS}/{tool}/grep", {"pattern": "café"}, status=200)
        neighbour = running.tool(project="project-2", source={"kind": "local", "path": str(other)})
        assert running.wait(neighbour)["indexed_files"] == 1
        assert running.wait(tool)["skipped_files"] == 2
    outcomes = {file["file_path"]: (file["status"], file["reason"]) for file in running.files(tool)}
    assert outcomes == {
        "good.zip/a.md": ("indexed", None),
        "number.tar.gz": ("skipped", "too_large"),
        "directory.zip": ("skipped", "too_large"),
    }
    (message,) = {file["message"] for file in running.files(tool) if file["status"] == "skipped"}
    assert "unpack it and index its files" in message
    assert max(seconds) < MOST_SECONDS
