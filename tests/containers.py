"""Archives and mails, well-formed ones and those that a tenant made to harm."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from email.message import EmailMessage


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


def tarred(files: dict[str, bytes], mode: str = "w") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]  # modes are literals there
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def mailed(files: dict[str, bytes]) -> bytes:
    message = EmailMessage()
    message.set_content("See what is attached.")
    for name, data in files.items():
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name)
    return bytes(message)


def long_number(digits: int) -> bytes:
    """An archive whose extended header has a number of that many digits, of which `int` takes quadratic time."""
    record = b"size=" + b"1" * digits + b"\n"
    length = len(record) + 1 + len(str(len(record) + 10))
    record = b"%d %s" % (length, record)
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, len(record)
    padding = b"\0" * (-len(record) % tarfile.BLOCKSIZE)
    return gzip.compress(info.tobuf(tarfile.USTAR_FORMAT) + record + padding + tarfile.TarInfo("y").tobuf())


def parted_name(semicolons: int) -> bytes:
    """A mail with a file name that takes quadratic time to be split at its semicolons."""
    name = b";" * semicolons
    return b'Content-Type: text/plain\nContent-Disposition: attachment; filename="' + name + b'"\n\ntext\n'


def many_parts(count: int) -> bytes:
    """A mail whose parts take a helper some seconds, although its time is linear."""
    return b"Content-Type: multipart/mixed; boundary=b\n\n--b" + b"\n\nx\n--b" * count + b"--\n"


def large_directory(size: int) -> bytes:
    """A ZIP archive that is nothing but the directory of its members."""
    entry = struct.pack("<4s4B4HL2L5H2L", b"PK\x01\x02", *[0] * 4, *[0] * 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    directory = entry * (size // len(entry))
    count = size // len(entry) % 65536
    return directory + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(directory), 0, 0)


def nested_mail(depth: int) -> bytes:
    text = "Content-Type: text/plain\n\nend\n"
    for number in range(depth):
        text = f'Content-Type: multipart/mixed; boundary="b{number}"\n\n--b{number}\n{text}\n--b{number}--\n'
    return text.encode()
