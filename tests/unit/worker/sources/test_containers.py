"""Containers list and read what was put into them, and refuse what promises too much before it is unpacked."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from random import Random

import pytest

from schemas.content.document import FileContent, ListingPage, SourceEntry
from schemas.errors import FileError
from schemas.reason import Reason
from schemas.tool import ContainerKind
from tests.compound import outlook
from tests.helpers import HELPERS
from worker.ignore import EVERYTHING, Rules
from worker.parse import containers
from worker.parse.containers import opened as opened_containers
from worker.parse.containers.mail import open_mail
from worker.parse.containers.tar import open_tar
from worker.parse.containers.zip import open_zip
from worker.parse.limits import Limits
from worker.sandbox.members import MAX_PATH_CHARACTERS
from worker.sources import opening
from worker.sources.local import LocalFolder
from worker.sources.opening import OpeningSource

LIMIT = 1_000_000
BOTH: tuple[ContainerKind, ...] = ("archives", "attachments")
Files = dict[str, bytes]


def _zip(files: Files) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return packed.getvalue()


def _tar(files: Files, mode: str = "w:gz") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode) as archive:  # type: ignore[call-overload]  # modes are literals there
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def _mail(files: Files) -> bytes:
    message = EmailMessage()
    message["Subject"] = "Report"
    message.set_content("See what is attached.")
    for name, data in files.items():
        message.add_attachment(data, maintype="application", subtype="octet-stream", filename=name.replace("/", "-"))
    return bytes(message)


PACKERS: dict[str, Callable[[Files], bytes]] = {
    "a.zip": _zip,
    "b.tar": lambda files: _tar(files, "w"),
    "c.tar.gz": _tar,
    "d.TGZ": _tar,
    "e.tar.bz2": lambda files: _tar(files, "w:bz2"),
    "f.tar.xz": lambda files: _tar(files, "w:xz"),
    "g.eml": _mail,
    "h.msg": lambda files: outlook({"0037": "Report"}, tuple(_flat(files)), tuple(files.values())),
}
#: Containers that are read themselves. Their members have no folders.
MAILS = ("g.eml", "h.msg")


def _flat(names: Iterable[str]) -> list[str]:
    return [name.replace("/", "-") for name in names]


def _source(folder: Path, rules: Rules = EVERYTHING, page_size: int = 3) -> OpeningSource:
    return OpeningSource(LocalFolder(str(folder), [folder], rules, page_size=page_size), rules, BOTH, LIMIT, HELPERS)


def _pages(open_: Callable[[], OpeningSource]) -> list[ListingPage]:
    pages = [open_().list(None)]
    while pages[-1].cursor is not None:
        # a new source stands for another process
        pages.append(open_().list(pages[-1].cursor))
    return pages


def _listed(open_: Callable[[], OpeningSource]) -> dict[str, SourceEntry]:
    entries = [entry for page in _pages(open_) for entry in page.entries]
    by_path = {entry.path: entry for entry in entries}
    assert len(by_path) == len({entry.key for entry in entries}) == len(entries)
    return by_path


@pytest.mark.parametrize("page_entries", [1, 4, 10_000])
@pytest.mark.parametrize("seed", range(4))
def test_lists_and_reads_what_was_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, page_entries: int
) -> None:
    monkeypatch.setattr(opening, "PAGE_ENTRIES", page_entries)
    rng = Random(seed)
    expected: Files = {}
    for name, pack in PACKERS.items():
        at = f"{rng.choice(['', 'x/', 'a.zip.d/'])}{name}"
        names = rng.sample(["1.md", "in/2.md", "in/deep/3.txt", "é.md", "4"], rng.randrange(5))
        files = {each: rng.randbytes(rng.randrange(50)) for each in names}
        (tmp_path / at).parent.mkdir(exist_ok=True)
        (tmp_path / at).write_bytes(pack(files))
        expected |= {
            f"{at}/{each}": data
            for each, data in zip(_flat(files) if name in MAILS else files, files.values(), strict=True)
        }
        if name in MAILS:
            expected[at] = (tmp_path / at).read_bytes()
    listed = _listed(lambda: _source(tmp_path))
    assert {path: entry.size for path, entry in listed.items()} == {path: len(data) for path, data in expected.items()}
    reader = _source(tmp_path)
    for path, entry in rng.sample(sorted(listed.items()), len(listed)):
        assert reader.read(entry.key, LIMIT).data == expected[path]


def test_members_have_the_stamp_of_their_container(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(_zip({"1.md": b"one"}))
    before = _listed(lambda: _source(tmp_path))["a.zip/1.md"]
    (tmp_path / "a.zip").write_bytes(_zip({"1.md": b"one", "2.md": b"two"}))
    after = _listed(lambda: _source(tmp_path))["a.zip/1.md"]
    assert (before.key, before.stamp != after.stamp) == (after.key, True)


def test_rules_apply_to_members(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(_zip({"keep.md": b"1", "node_modules/x.js": b"2", "drafts/y.md": b"3"}))
    rules = Rules(exclude=["drafts/"])
    pages = _pages(lambda: _source(tmp_path, rules))
    assert [entry.path for page in pages for entry in page.entries] == ["a.zip/keep.md"]
    assert dict(pages[0].ignored) == {"dependencies_directories": 1, "exclude_directories": 1}
    (tmp_path / ".gitignore").write_text("old.zip")
    source = _source(tmp_path, rules)
    assert source.leaves_out(b"old.zip" + opening._WITHIN + b".zip/1.md")
    by_path = _listed(lambda: _source(tmp_path))
    assert {path for path, entry in by_path.items() if source.leaves_out(entry.key)} == {
        "a.zip/node_modules/x.js",
        "a.zip/drafts/y.md",
    }


def test_only_wanted_kinds_are_opened(tmp_path: Path) -> None:
    for name, pack in PACKERS.items():
        (tmp_path / name).write_bytes(pack({"1.md": b"one"}))
    source = LocalFolder(str(tmp_path), [tmp_path])
    paths = [
        entry.path for entry in OpeningSource(source, EVERYTHING, ["attachments"], LIMIT, HELPERS).list(None).entries
    ]
    assert sorted(paths) == sorted([*PACKERS, "g.eml/1.md", "h.msg/1.md"])


def test_a_path_within_a_container_lists_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(_zip({"1.md": b"one", "2.md": b"two"}))
    (tmp_path / "b.md").write_bytes(b"other")
    (tmp_path / "dir.zip").mkdir()
    (tmp_path / "dir.zip" / "c.md").write_bytes(b"c")
    source = _source(tmp_path)
    assert source.narrow([b"a.zip/1.md"]) == [b"a.zip"]
    assert [entry.path for entry in source.list(None).entries] == ["a.zip/1.md", "a.zip/2.md"]
    source = _source(tmp_path)
    assert source.narrow([b"dir.zip/c.md"]) == [b"dir.zip"]
    assert [entry.path for entry in source.list(None).entries] == ["dir.zip/c.md"]


def test_names_lead_nowhere_else(tmp_path: Path) -> None:
    names = ["../up.md", "/root.md", "a\\b.md", "./c.md", "long/" + "x" * 500, "..", "long/" + "x" * 501]
    (tmp_path / "a.zip").write_bytes(_zip({name: name.encode() for name in names}))
    listed = _listed(lambda: _source(tmp_path))
    short = {path for path in listed if "long" not in path}
    assert short == {"a.zip/up.md", "a.zip/root.md", "a.zip/a/b.md", "a.zip/c.md"}
    assert len(listed) == 6
    assert {_source(tmp_path).read(entry.key, LIMIT).data.decode() for entry in listed.values()} == {*names} - {".."}


def test_a_damaged_archive_stands_for_its_members(tmp_path: Path) -> None:
    whole = {name: pack({"1.md": b"one" * 400}) for name, pack in PACKERS.items() if name not in MAILS}
    for name, data in whole.items():
        (tmp_path / name).write_bytes(data[: len(data) // 3])
    listed = _listed(lambda: _source(tmp_path))
    reasons = {path: entry.reason for path, entry in listed.items() if path in PACKERS}
    # a plain tar ends in padding, and only reading finds that the member of the ZIP file is cut
    assert reasons == dict.fromkeys(whole.keys() - {"a.zip", "b.tar"}, Reason.PARSE_FAILED)
    source = _source(tmp_path)
    assert source.read(listed["b.tar/1.md"].key, LIMIT).data == b"one" * 400
    with pytest.raises(FileError) as caught:
        source.read(listed["a.zip/1.md"].key, LIMIT)
    assert caught.value.reason is Reason.PARSE_FAILED


@pytest.mark.parametrize("raised", [MemoryError(), FileError(Reason.ENCRYPTED), KeyError("x")])
def test_only_a_lack_of_memory_is_not_the_fault_of_a_container(
    monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    def fail(_: bytes) -> containers.Container:
        raise raised

    monkeypatch.setitem(opened_containers.OPENERS, "zip", fail)
    ask = {"container": "a", "packing": "zip"}
    if isinstance(raised, MemoryError):
        with pytest.raises(MemoryError):
            opened_containers.members(ask, b"", Limits())
    else:
        with pytest.raises(FileError) as refused:
            opened_containers.members(ask, b"", Limits())
        assert refused.value.reason is (raised.reason if isinstance(raised, FileError) else Reason.PARSE_FAILED)


def test_what_cannot_be_read_for_now_has_not_vanished(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(_zip({"1.md": b"one"}))
    known = _listed(lambda: _source(tmp_path))["a.zip/1.md"]

    class Unreadable(LocalFolder):
        def read(self, key: bytes, limit: int, listed: str = "", /) -> FileContent:
            raise FileError(Reason.UNREADABLE)

    page = OpeningSource(Unreadable(str(tmp_path), [tmp_path]), EVERYTHING, BOTH, LIMIT, HELPERS).list(None)
    assert [(entry.path, entry.reason) for entry in page.entries] == [("a.zip", Reason.UNREADABLE)]
    assert [known.key.startswith(prefix) for prefix in page.unlisted] == [True]
    assert not any(b"a.zip.md".startswith(prefix) for prefix in page.unlisted)


def test_what_a_page_says_beside_its_entries_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "PAGE_ENTRIES", 1)

    class Closed(LocalFolder):
        def list(self, cursor: str | None) -> ListingPage:
            return replace(super().list(cursor), unlisted=(b"closed/",), ignored=Counter(exclude=3))

    for name in ("1.md", "2.md", "3.md"):
        (tmp_path / name).write_text("text")
    source = OpeningSource(Closed(str(tmp_path), [tmp_path]), EVERYTHING, BOTH, LIMIT, HELPERS)
    pages = _pages(lambda: source)
    assert len(pages) == 3
    assert {prefix for page in pages for prefix in page.unlisted} == {b"closed/"}
    assert sum((Counter(page.ignored) for page in pages), Counter()) == {"exclude": 3}


@pytest.mark.parametrize("stamps", [("v1", "v2"), (None, None)])
def test_a_container_that_may_have_changed_is_opened_again(tmp_path: Path, stamps: tuple[str | None, ...]) -> None:
    versions = [FileContent(_zip({"1.md": stamp}), stamps[n]) for n, stamp in enumerate((b"one", b"two"))]

    class Changing(LocalFolder):
        def read(self, key: bytes, limit: int, listed: str = "", /) -> FileContent:
            return versions.pop(0)

    source = OpeningSource(Changing(str(tmp_path), [tmp_path]), EVERYTHING, BOTH, LIMIT, HELPERS)
    member = b"a.zip" + opening._WITHIN + b".zip/1.md"
    assert [source.read(member, LIMIT).data for _ in range(2)] == [b"one", b"two"]


def test_a_container_is_read_once_for_members_of_the_stamp_that_it_has(tmp_path: Path) -> None:
    versions = [FileContent(_zip({"1.md": name, "2.md": name}), name.decode()) for name in (b"v1", b"v2", b"v3")]

    class Changing(LocalFolder):
        def read(self, key: bytes, limit: int, listed: str = "", /) -> FileContent:
            return versions.pop(0)

    source = OpeningSource(Changing(str(tmp_path), [tmp_path]), EVERYTHING, BOTH, LIMIT, HELPERS)

    def read(container: bytes, number: int, listed: str) -> tuple[bytes, str | None]:
        content = source.read(container + opening._WITHIN + f".zip/{number}.md".encode(), LIMIT, listed)
        return content.data, content.stamp

    assert [read(b"a.zip", number, "v1") for number in (1, 2, 1)] == [(b"v1", "v1")] * 3
    # it was listed anew meanwhile
    assert [read(b"a.zip", number, "v2") for number in (1, 2)] == [(b"v2", "v2")] * 2
    assert read(b"b.zip", 1, "v2") == (b"v3", "v3")


def test_a_small_member_of_a_larger_container_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(_zip({"1.md": b"one", "2.md": Random(1).randbytes(500)}))
    assert _source(tmp_path).read(b"a.zip" + opening._WITHIN + b".zip/1.md", 3).data == b"one"


def test_members_have_neither_the_node_nor_the_type_of_their_container(tmp_path: Path) -> None:
    class Nodes(LocalFolder):
        def list(self, cursor: str | None) -> ListingPage:
            page = super().list(cursor)
            return replace(page, entries=[replace(entry, node_id="n", type="report") for entry in page.entries])

    (tmp_path / "a.eml").write_bytes(_mail({"1.md": b"one"}))
    source = OpeningSource(Nodes(str(tmp_path), [tmp_path]), EVERYTHING, BOTH, LIMIT, HELPERS)
    found = [(entry.path, entry.node_id, entry.type) for entry in source.list(None).entries]
    assert found == [("a.eml", "n", "report"), ("a.eml/1.md", None, None)]


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize("beyond", [False, True])
def test_limits_hold_on_both_sides(monkeypatch: pytest.MonkeyPatch, kind: str, *, beyond: bool) -> None:
    module = __import__(f"worker.parse.containers.{kind}", fromlist=["x"])
    monkeypatch.setattr(module, "MAX_MEMBERS", 3)
    monkeypatch.setattr(module, "MAX_INFLATED_BYTES", 3_000)
    pack, open_ = (_zip, open_zip) if kind == "zip" else (_tar, open_tar)
    for files in (
        {f"{number}.md": b"" for number in range(3 + beyond)},
        {"a.md": b"x" * 1_500, "b.md": b"y" * (1_500 + beyond)},
    ):
        if beyond:
            with pytest.raises(FileError) as refused:
                [*open_(pack(files)).members()]
            assert refused.value.reason is Reason.TOO_LARGE
        else:
            assert {member.path for member in open_(pack(files)).members()} == {*files}


@pytest.mark.parametrize("number", [2, 3])
def test_a_message_has_a_limited_number_of_attachments(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr("worker.parse.containers.mail.MAX_MEMBERS", 2)
    packed = _mail({f"{each}.md": b"x" for each in range(number)})
    if number == 2:
        assert len([*open_mail(packed).members()]) == 2
    else:
        with pytest.raises(FileError) as refused:
            open_mail(packed)
        assert refused.value.reason is Reason.TOO_LARGE


@pytest.mark.parametrize(("pack", "open_"), [(_zip, open_zip), (_tar, open_tar), (_mail, open_mail)])
def test_a_member_is_read_up_to_the_limit(pack: Callable[[Files], bytes], open_: containers.Opener) -> None:
    opened = open_(pack({"a.md": b"four"}))
    assert opened.read("a.md", 4) == b"four"
    for path, limit, reason in (("a.md", 3, Reason.TOO_LARGE), ("b.md", 4, Reason.UNREADABLE)):
        with pytest.raises(FileError) as refused:
            opened.read(path, limit)
        assert refused.value.reason is reason


def test_only_long_paths_of_members_are_cut() -> None:
    longest = "x" * MAX_PATH_CHARACTERS
    assert containers.cleaned(longest) == longest
    cut = containers.cleaned(longest + "y")
    assert cut.startswith(longest + "…")
    assert cut != containers.cleaned(longest + "z")


def test_a_path_of_a_member_can_be_stored() -> None:
    assert containers.cleaned("a\0/caf\udce9") == "a\N{SYMBOL FOR NULL}/caf\ufffd"


@pytest.mark.parametrize("maximum", [1_000, 3 << 20])
def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch, maximum: int) -> None:
    written = 0

    def temporary() -> io.BytesIO:
        nonlocal written

        class Counting(io.BytesIO):
            def write(self, data: object) -> int:
                nonlocal written
                written += len(data)  # type: ignore[arg-type]
                return super().write(data)  # type: ignore[arg-type]

        return Counting()

    module = __import__("worker.parse.containers.tar", fromlist=["x"])
    monkeypatch.setattr(module.tempfile, "TemporaryFile", temporary)
    monkeypatch.setattr(module, "MAX_INFLATED_BYTES", maximum)
    monkeypatch.setattr(module, "MAX_MEMBERS", 1)
    with pytest.raises(FileError):
        open_tar(_tar({"zeros": bytes(30 << 20)}))
    # beyond the members' bytes, an archive has headers and padding
    assert written < maximum + 20_000


def test_a_member_that_understates_its_size_gives_no_more() -> None:
    packed = bytearray(_zip({"a.md": b"x" * 5_000}))
    for at in (packed.find(b"PK\x01\x02") + 24, packed.find(b"PK\x03\x04") + 22):
        packed[at : at + 4] = (10).to_bytes(4, "little")
    archive = open_zip(bytes(packed))
    assert [member.size for member in archive.members()] == [10]
    with pytest.raises(FileError) as refused:
        archive.read("a.md", LIMIT)
    assert refused.value.reason is Reason.PARSE_FAILED


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("beyond", [False, True])
def test_a_large_directory_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch, *, is_large: bool, beyond: bool
) -> None:
    """The directory of a large archive states its size in a record of its own."""
    if is_large:
        monkeypatch.setattr("zipfile.ZIP_FILECOUNT_LIMIT", 1)
    packed = _zip({"a.md": b"a", "b.md": b"b"})
    assert (b"PK\x06\x07" in packed) == is_large
    size = packed.find(b"PK\x06\x06" if is_large else b"PK\x05\x06") - packed.find(b"PK\x01\x02")
    if is_large:
        # archives with an exact size there are as good
        at = packed.find(b"PK\x05\x06") + 12
        packed = packed[:at] + b"\xff" * 8 + packed[at + 8 :]
    monkeypatch.setattr("worker.parse.containers.zip.MAX_DIRECTORY_BYTES", size - beyond)
    if beyond:
        with pytest.raises(FileError) as refused:
            open_zip(packed)
        assert refused.value.reason is Reason.TOO_LARGE
    else:
        assert [member.path for member in open_zip(packed).members()] == ["a.md", "b.md"]


@pytest.mark.parametrize("copies", [2, 3])
def test_members_that_share_bytes_are_refused(copies: int) -> None:
    packed = _zip({"a.md": b"".join(b"%d" % number for number in range(2_000))})
    directory = packed.find(b"PK\x01\x02")
    end = packed.find(b"PK\x05\x06")
    entry = packed[directory:end]
    tail = bytearray(packed[end:])
    tail[8:10] = tail[10:12] = copies.to_bytes(2, "little")
    tail[12:16] = (copies * len(entry)).to_bytes(4, "little")
    with pytest.raises(FileError):
        [*open_zip(packed[:directory] + copies * entry + bytes(tail)).members()]


def test_links_and_encrypted_members_have_their_reason() -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        pipe = tarfile.TarInfo("pipe")
        pipe.type = tarfile.FIFOTYPE
        hard_link = tarfile.TarInfo("hard")
        hard_link.type, hard_link.linkname = tarfile.LNKTYPE, "link"
        for each in (link, pipe, hard_link):
            archive.addfile(each)
    opened = open_tar(packed.getvalue())
    reasons = {"link": Reason.SYMLINK, "hard": Reason.SYMLINK, "pipe": Reason.NOT_A_FILE}
    assert {each.path: each.reason for each in opened.members()} == reasons
    with pytest.raises(FileError):
        opened.read("link", LIMIT)
    encrypted = bytearray(_zip({"a.md": b"secret"}))
    for at in (encrypted.find(b"PK\x01\x02") + 8, encrypted.find(b"PK\x03\x04") + 6):
        encrypted[at] |= 1
    assert [each.reason for each in open_zip(bytes(encrypted)).members()] == [Reason.ENCRYPTED]
    with pytest.raises(FileError) as refused:
        open_zip(bytes(encrypted)).read("a.md", LIMIT)
    assert refused.value.reason is Reason.ENCRYPTED


@pytest.mark.parametrize("seed", range(60))
def test_damage_raises_only_errors_with_a_reason(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    files = {f"{number}.md": rng.randbytes(200) for number in range(4)}
    for name, pack in PACKERS.items():
        data = bytearray(pack(files))
        for _ in range(rng.randrange(1, 12)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        (tmp_path / name).write_bytes(data)
    reader = _source(tmp_path)
    for page in _pages(lambda: _source(tmp_path)):
        for entry in page.entries:
            with suppress(FileError):
                reader.read(entry.key, LIMIT)


def test_a_deeply_nested_message_has_an_outcome(tmp_path: Path) -> None:
    text = "Content-Type: text/plain\n\nend\n"
    for number in range(3_000):
        text = f'Content-Type: multipart/mixed; boundary="b{number}"\n\n--b{number}\n{text}\n--b{number}--\n'
    (tmp_path / "deep.eml").write_text(text)
    assert [entry.path for entry in _source(tmp_path).list(None).entries] == ["deep.eml"]


def test_folders_and_names_of_nothing_are_no_members() -> None:
    assert [member.path for member in open_zip(_zip({"docs/": b"", "docs/a.md": b"text"})).members()] == ["docs/a.md"]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, kind in (("docs", tarfile.DIRTYPE), ("..", tarfile.REGTYPE), ("docs/a.md", tarfile.REGTYPE)):
            info = tarfile.TarInfo(name)
            info.type = kind
            archive.addfile(info)
    assert [member.path for member in open_tar(packed.getvalue()).members()] == ["docs/a.md"]


def test_a_name_of_its_own_is_none_of_the_others() -> None:
    assert containers.of_its_own("a.md", 2, {"b.md"}) == "a.md"
    assert containers.of_its_own("a.md", 2, {"a.md"}) == "a (2).md"
    assert containers.of_its_own("a.md", 2, {"a.md", "a (2).md"}) == "a (2) (2).md"
    assert containers.of_its_own("notes", 3, {"notes"}) == "notes (3)"
