"""A switch between network namespaces. Runs in a namespace of its own, so it changes nothing of this machine's network.

The switch drops the packets of a machine that is cut off: no connection is refused, reset or closed.
"""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

BRIDGE = "machines"
#: The address of the servers. That of machine N ends with 10 + N.
SERVERS = "10.77.0.1"
SERVERS_MAC = "02:00:00:00:00:01"
SUBNET = "10.77.0.0/24"
#: How often a server sends a segment again before it gives up the connection. With the first, within four seconds.
IMPATIENT, USUAL = 3, 15


def address_of(number: int) -> str:
    return f"10.77.0.{10 + number}"


def _mac_of(number: int) -> str:
    return f"02:00:00:00:01:{number:02x}"


def run(*words: str) -> None:
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def _ip(command: str) -> None:
    run("ip", *command.split())


def make_switch() -> None:
    """Make the switch, with the servers' address on it."""
    _ip("link set lo up")
    _ip(f"link add {BRIDGE} type bridge")
    _ip(f"link set {BRIDGE} address {SERVERS_MAC} up")
    _ip(f"addr add {SERVERS}/24 dev {BRIDGE}")


def plug_in(number: int, pid: int) -> None:
    """Give the namespace of a process a cable to the switch."""
    _ip(f"link add port{number} type veth peer name cable address {_mac_of(number)} netns {pid}")
    _ip(f"link set port{number} master {BRIDGE} up")
    # a switch does not answer for a machine that is cut off, so that nobody learns of it
    _ip(f"neigh replace {address_of(number)} lladdr {_mac_of(number)} dev {BRIDGE} nud permanent")


def unplug(number: int) -> None:
    _ip(f"link delete port{number}")


def cut_off(number: int) -> None:
    """Drop all packets from and to a machine: its cable stays up, and leads nowhere."""
    _ip(f"link set port{number} nomaster")


def connect(number: int) -> None:
    _ip(f"link set port{number} master {BRIDGE}")


def let_servers_resend(times: int) -> None:
    """Set how long servers keep connections on which nothing is acknowledged."""
    Path("/proc/sys/net/ipv4/tcp_retries2").write_text(f"{times}\n")


def configure(number: int) -> None:
    """Use the cable of this namespace, once it is plugged in."""
    _ip("link set lo up")
    _ip(f"addr add {address_of(number)}/24 dev cable")
    _ip("link set cable up")
    _ip(f"neigh replace {SERVERS} lladdr {SERVERS_MAC} dev cable nud permanent")


def has_cable() -> bool:
    return any(name == "cable" for _, name in socket.if_nameindex())
