"""What a compromised parser could do. A program started by the helper tries it for real."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL

import psutil
import pytest

from api.stack.processes import END_WITH_PARENT, SystemAccount, run_once
from tests.contract.samples import DATA, LIMITS, ROOT, helper, of
from tests.parsing import parse
from worker.parse.sandbox import client as sandbox

__all__ = ["helper"]
linux = pytest.mark.skipif(sys.platform != "linux", reason="run on Linux: other systems confine no process")
NOBODY = 65534
MEMORY = 256 << 20

#: Replaces Tesseract, and returns as the text of the image what it was able to do.
ATTACK = f"""#!{sys.executable}
import json, os, socket, sys
place, worker, port = PLACE, WORKER, PORT

def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"hello", ("127.0.0.1", port))

def large():
    with open(sys.argv[2] + ".large", "wb") as file:
        file.truncate({MEMORY} + 1)

def small():
    with open(sys.argv[2] + ".small", "wb") as file:
        file.write(b"kept")

tries = {{
    "read the worker's environment": lambda: open(f"/proc/{{worker}}/environ").read(),
    "read the worker's memory": lambda: open(f"/proc/{{worker}}/mem", "rb").read(0),
    "signal the worker": lambda: os.kill(worker, 0),
    "connect": lambda: socket.create_connection(("127.0.0.1", port), 5).close(),
    "send a datagram": udp,
    "read a file": lambda: open(place + "/secret").read(),
    "list a folder": lambda: os.listdir(place),
    "write a file": lambda: open(place + "/written", "w").close(),
    "read beside the code": lambda: open({str(ROOT / "pyproject.toml")!r}).read(),
    "write to the code": lambda: open({str(ROOT / "worker/parse/sandbox/confine.py")!r}, "ab").close(),
    "delete a file in /tmp": lambda: os.unlink(place + "/other"),
    "write a large file": large,
    "write a small file": small,
}}
if "--version" in sys.argv:
    print("tesseract 5.0.0")
elif "--list-langs" in sys.argv:
    print("List of available languages in /nowhere/ (1):\\neng")
else:
    refused = {{}}
    for name, attempt in tries.items():
        try:
            attempt()
        except OSError as error:
            refused[name] = error.strerror
    done = [name for name in tries if name not in refused]
    with open(sys.argv[2] + ".txt", "w") as output:
        json.dump({{"done": done, "refused": refused, "environ": dict(os.environ)}}, output)
"""

#: Reads an image, as a worker does, in the mode given first.
WORKER = """
import os, stat, sys
from pathlib import Path
program = Path(sys.argv[1], "bin", "tesseract")
program.parent.mkdir()
program.write_text(sys.argv[2].replace("PLACE", repr(sys.argv[1])).replace("WORKER", str(os.getpid())))
program.chmod(0o755)
if sys.argv[5] == "office":
    (program.parent / "soffice").symlink_to(program)
os.environ["PATH"] = str(program.parent)
os.environ["EMBEDDING_API_KEY"] = os.environ["AWS_SECRET_ACCESS_KEY"] = "made-up"
from tests.parsing import parse
from worker.parse import Limits
print(parse("a.png", Path(sys.argv[3]).read_bytes(), Limits(memory_bytes=int(sys.argv[4]))).text)
"""

#: Exhausts the kernel's limits for Landlock, and for networks in our own user namespace, before it continues.
WITHOUT = """
import ctypes, os, struct, sys
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
uid, gid = os.geteuid(), os.getegid()
if libc.unshare(0x10000000):
    sys.exit(3)
try:
    for name, text in (("uid_map", f"{uid} {uid} 1"), ("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1")):
        Path("/proc/self", name).write_text(text)
    for name in ("user", "net"):
        Path(f"/proc/sys/user/max_{name}_namespaces").write_text("0")
except OSError:
    sys.exit(3)
libc.prctl(38, 1, 0, 0, 0)
rules = libc.syscall(444, struct.pack("Q", 1 << 6), ctypes.c_size_t(8), 0)
while libc.syscall(446, rules, 0) == 0:
    pass
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a secret that other users may write to."""
    with tempfile.TemporaryDirectory(prefix="foldex-test-") as made:
        folder = Path(made)
        folder.chmod(0o777)
        (folder / "secret").write_text("secret")
        (folder / "secret").chmod(0o644)
        (folder / "other").touch()
        yield folder


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def attacked(
    place: Path, port: int, user: int | None, before: str = "", office: str = "no office"
) -> dict[str, list[str]]:
    """What the program was able to do in the helper of a worker that runs as `user`."""
    pytest.importorskip("PIL", reason="install pillow (extra `ocr`) to run")
    other = ["-", "-", "0"] if user is None else [str(user), str(user), str(int(needs_reach(user)))]
    wrapper = [sys.executable, "-I", "-S", str(END_WITH_PARENT), str(os.getpid()), str(int(SIGKILL)), *other]
    arguments = [str(place), ATTACK.replace("PORT", str(port)), str(DATA / "image/notice.png"), str(MEMORY), office]
    command = [*wrapper, sys.executable, "-c", before + WORKER, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 3:
        pytest.skip("run where user namespaces may be made: they bound what the kernel gives")
    assert done.returncode == 0, done.stderr
    answer: dict[str, list[str]] = json.loads(done.stdout)
    return answer


def needs_reach(user: int | None) -> bool:
    """Whether the interpreter or this code is inaccessible to the user."""
    start = (sys.executable, "-c", "import worker.parse")
    return user is not None and run_once(start, SystemAccount(user, user), ROOT).returncode != 0


def refused_here() -> str:
    command = [sys.executable, "-I", "-S", "worker/parse/sandbox/confine.py"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


@linux
@pytest.mark.parametrize("user", [None, NOBODY])
def test_a_parser_that_was_taken_over_reaches_nothing(place: Path, port: int, user: int | None) -> None:
    if user is not None and os.geteuid() != 0:
        pytest.skip("run as root: it takes another user")
    refused = set(refused_here().split(", "))
    if "Landlock" in refused:
        pytest.skip("run on a kernel with Landlock, and with the right to use it")
    possible = {"write a small file"}
    # a user namespace would hide the interpreter's folder, and only root has a network namespace without one
    if "seccomp" in refused and (needs_reach(user) or "a network namespace" in refused):
        possible |= {"send a datagram"} | ({"connect"} if "Landlock's rules for TCP" in refused else set())
    if {"seccomp", "Landlock's rules for signals"} <= refused:
        possible |= {"signal the worker"}
    answer = attacked(place, port, user)
    assert {*answer["done"]} == possible, answer["refused"]
    assert "made-up" not in json.dumps(answer["environ"])


@linux
def test_files_in_tmp_can_be_deleted_only_where_libreoffice_is_installed(place: Path, port: int) -> None:
    if "Landlock" in refused_here().split(", ") or not place.is_relative_to("/tmp"):
        pytest.skip("run on a kernel with Landlock, with temporary files in /tmp")
    assert "delete a file in /tmp" in attacked(place, port, None, office="office")["done"]
    (place / "bin" / "soffice").unlink()
    (place / "bin" / "tesseract").unlink()
    (place / "bin").rmdir()
    (place / "other").touch()
    assert "delete a file in /tmp" not in attacked(place, port, None)["done"]


@linux
def test_files_are_read_where_the_kernel_confines_nothing(place: Path, port: int) -> None:
    answer = attacked(place, port, None, WITHOUT)
    # the control: without these measures, this would be possible
    assert {"list a folder", "read a file", "write a file"} <= {*answer["done"]}
    # what no filter of system calls allows stays refused
    assert {"connect", "send a datagram", "signal the worker", "write a large file"}.isdisjoint(answer["done"])
    code = WITHOUT + "import runpy; runpy.run_path('worker/parse/sandbox/confine.py', run_name='__main__')"
    said = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "a network namespace, Landlock"


@linux
def test_the_helper_inherits_no_socket() -> None:
    sandbox.stop()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.set_inheritable(True)
        parse("a.docx", of("docx/handbook.docx"), LIMITS)
        assert sandbox.parser.running is not None
        handles = Path(f"/proc/{sandbox.parser.running.process.pid}/fd").iterdir()
        assert not [handle for handle in handles if str(handle.readlink()).startswith("socket")]


def test_what_a_file_leaves_on_the_disk_goes_with_it_and_the_folder_with_the_helper() -> None:
    sandbox.stop()
    parse("a.docx", of("docx/handbook.docx"), LIMITS)
    assert sandbox.parser.running is not None
    left = sandbox.parser.running.scratch.path
    assert psutil.Process(sandbox.parser.running.process.pid).is_running()
    (left / "folder").mkdir()
    (left / "folder" / "file").touch()
    (left / "link").symlink_to("/")
    parse("a.docx", of("docx/handbook.docx"), LIMITS)
    assert [*left.iterdir()] == []
    sandbox.stop()
    assert not left.exists()
