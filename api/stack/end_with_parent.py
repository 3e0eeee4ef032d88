"""Starts a program that ends with its parent: `end_with_parent.py PARENT SIGNAL UID GID REACH COMMAND…`.

Run as a separate program by its path: it imports nothing of Foldex, and a process with threads runs no Python code
between fork and exec. UID and GID are `-` to keep the user. REACH is 1 to keep the right to traverse directories that
are closed to UID (Linux). A server whose data lies below root's home needs it.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1
PR_SET_SECUREBITS = 28
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2
SECBIT_NO_SETUID_FIXUP = 4
CAP_DAC_OVERRIDE = 1
LINUX_CAPABILITY_VERSION_3 = 0x20080522


def _check(result: int, what: str) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def become(libc: ctypes.CDLL, uid: int, gid: int, *, reach: bool) -> None:
    """Change user permanently. With `reach`, keep only CAP_DAC_OVERRIDE across the change and the exec."""
    if reach:
        # otherwise the change of user drops the capability, and access(2), which Postgres calls, does not see it
        _check(libc.prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0), "keeping capabilities")
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    if reach:
        header = (ctypes.c_uint32 * 2)(LINUX_CAPABILITY_VERSION_3, 0)
        capabilities = (ctypes.c_uint32 * 6)(*[1 << CAP_DAC_OVERRIDE] * 3, 0, 0, 0)
        _check(libc.capset(header, capabilities), "limiting capabilities")
        _check(libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0), "passing on a capability")


def main() -> None:
    """Change user, set the parent-death signal (a later change of user would clear it), and exec the command."""
    parent, signal, uid, gid, reach, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if uid != "-":
        become(libc, int(uid), int(gid), reach=reach == "1")
    if sys.platform == "linux":
        _check(libc.prctl(PR_SET_PDEATHSIG, int(signal), 0, 0, 0), "tying to the parent")
    if os.getppid() != int(parent):
        sys.exit("the parent ended before its program began")
    os.execv(command[0], command)  # noqa: S606 - a list of our own, without a shell


if __name__ == "__main__":
    main()
