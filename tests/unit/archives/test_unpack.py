# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import subprocess
import tarfile
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest

from derive.archives import (
    Dropped,
    Expected,
    Limits,
    Replaced,
    Unpacked,
    unpack_deb,
    unpack_sdist,
    unpack_tar,
    unpack_wheel,
    unpack_zip,
)
from derive.canonical import Digest
from derive.errors import Corrupt, DeriveError, InputErrors
from derive.store.memory import MemoryStore
from derive.trees.listing import DIRECTORY, File, Listing, Location, Symlink
from support.archives import (
    Tar,
    Zip,
    ar,
    contents,
    deb,
    folder,
    hardlink,
    pax,
    put,
    record_line,
    said,
    symlink,
    tar,
    wheel,
    zipped,
)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def unpacked(store: MemoryStore, *members: Tar, strip: int = 0) -> Unpacked:
    return unpack_tar(store, put(store, tar(*members)), name="x.tar", strip=strip)


def refusal(store: MemoryStore, *members: Tar) -> str:
    with pytest.raises(InputErrors) as caught:
        unpacked(store, *members)
    return said(caught.value)


def test_ten_hard_links_are_ten_files_with_their_own_bytes_however_they_were_linked(store: MemoryStore) -> None:
    names = [b"n%d" % n for n in range(10)]
    linked = unpacked(store, Tar(name=b"n0", data=b"text", mode=0o755), *[hardlink(n, b"n0") for n in names[1:]])
    reverse = unpacked(store, Tar(name=b"n9", data=b"text", mode=0o755), *[hardlink(n, b"n9") for n in names[:9]])
    plain = unpacked(store, *[Tar(name=n, data=b"text", mode=0o755) for n in names])
    assert contents(store, linked.listing) == dict.fromkeys(names, (b"text", "x"))
    digests = {store.add_listing(each.listing) for each in (linked, reverse, plain)}
    assert len(digests) == 1


def test_a_hard_link_to_a_hard_link_and_to_a_symbolic_link_work(store: MemoryStore) -> None:
    listing = unpacked(store, Tar(name=b"a", data=b"1"), hardlink(b"b", b"a"), hardlink(b"c", b"b")).listing
    assert contents(store, listing) == {b"a": b"1", b"b": b"1", b"c": b"1"}
    assert unpacked(store, symlink(b"l", b"a"), hardlink(b"m", b"l")).listing[b"m"] == Symlink(b"a")


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([hardlink(b"a", b"a")], "a hard link to itself"),
        ([hardlink(b"a", b"b"), hardlink(b"b", b"a")], "not before it"),
        ([hardlink(b"a", b"b"), Tar(name=b"b")], "not before it"),
        ([hardlink(b"a", b"nowhere")], "not before it"),
        ([hardlink(b"a", b"../../etc/shadow")], "climbs out"),
        ([folder(b"d"), hardlink(b"a", b"d")], "the folder d"),
        ([symlink(b"x", b"d"), Tar(name=b"d/f"), hardlink(b"a", b"x/f")], "not before it"),
    ],
)
def test_a_hard_link_that_leads_to_no_earlier_file_is_refused(store: MemoryStore, members: list[Tar], why: str) -> None:
    text = refusal(store, *members)
    assert why in text
    assert "x.tar: a" in text


@pytest.mark.parametrize("target", [b"/etc", b"..", b"d", b"nowhere"])
@pytest.mark.parametrize("late", [False, True])
def test_a_path_through_a_symbolic_link_is_refused_whichever_comes_first(
    store: MemoryStore, target: bytes, late: bool
) -> None:
    members = [symlink(b"x", target), Tar(name=b"x/passwd", data=b"root::0")]
    text = refusal(store, *(members[::-1] if late else members))
    assert "x.tar: x/passwd: a path that goes through the symbolic link x" in text


@pytest.mark.parametrize("target", [b"/etc/passwd", b"../up", b"a/../../up"])
def test_a_symbolic_link_out_of_a_source_tree_is_refused(store: MemoryStore, target: bytes) -> None:
    assert "x: a symbolic link that leads out of the tree" in refusal(store, symlink(b"x", target))


def test_links_that_loop_are_refused(store: MemoryStore) -> None:
    assert "loops" in refusal(store, symlink(b"a", b"b"), symlink(b"b", b"a"))
    assert "loops" in refusal(store, symlink(b"a", b"a"))


def test_links_that_lead_nowhere_in_the_tree_are_kept(store: MemoryStore) -> None:
    assert unpacked(store, symlink(b"a", b"later"), symlink(b"d/b", b"../a")).listing[b"a"] == Symlink(b"later")


def test_a_path_given_twice_keeps_the_last_and_says_so(store: MemoryStore) -> None:
    got = unpacked(store, Tar(name=b"a", data=b"old", mode=0o755), Tar(name=b"./a", data=b"new"))
    assert contents(store, got.listing) == {b"a": b"new"}
    assert got.notes == (Replaced(b"a"),)


def test_a_link_that_takes_the_place_of_a_file_is_the_last_too(store: MemoryStore) -> None:
    got = unpacked(store, Tar(name=b"a", data=b"old"), symlink(b"a", b"b"))
    assert (got.listing[b"a"], got.notes) == (Symlink(b"b"), (Replaced(b"a"),))


def test_a_hard_link_keeps_the_contents_that_its_target_had_then(store: MemoryStore) -> None:
    got = unpacked(store, Tar(name=b"a", data=b"old"), hardlink(b"b", b"a"), Tar(name=b"a", data=b"new"))
    assert contents(store, got.listing) == {b"a": b"new", b"b": b"old"}


def test_a_folder_given_twice_is_no_note(store: MemoryStore) -> None:
    assert unpacked(store, folder(b"d"), folder(b"d/")).notes == ()


@pytest.mark.parametrize("other", [Tar(name=b"d"), symlink(b"d", b"e"), hardlink(b"d", b"e")])
def test_a_path_that_is_a_folder_and_something_else_is_refused(store: MemoryStore, other: Tar) -> None:
    assert "both a folder and something else" in refusal(store, Tar(name=b"e"), folder(b"d"), other)
    if other.kind != b"1":
        assert "both a folder and something else" in refusal(store, other, folder(b"d"))


def test_a_path_below_a_file_is_refused(store: MemoryStore) -> None:
    assert "a/b lies below a" in refusal(store, Tar(name=b"a"), Tar(name=b"a/b"))


def test_what_a_tree_cannot_keep_is_listed(store: MemoryStore) -> None:
    head = pax({b"SCHILY.xattr.security.capability": b"\1"})
    got = unpacked(store, head, Tar(name=b"ping", mode=0o755), Tar(name=b"su", mode=0o4755), folder(b"tmp", 0o1777))
    assert got.notes == (
        Dropped(b"ping", "attribute SCHILY.xattr.security.capability"),
        Dropped(b"su", "mode 4755, setuid"),
        Dropped(b"tmp", "mode 1777, sticky"),
    )


def test_nothing_is_kept_of_an_archive_that_is_refused(store: MemoryStore) -> None:
    blob = put(store, tar(Tar(name=b"a", data=b"text"), Tar(name=b"/b")))
    with pytest.raises(InputErrors):
        unpack_tar(store, blob, name="x.tar")
    assert not store.has_blob(Digest(hashlib.sha256(b"text").hexdigest()))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_the_compression_of_a_tar_is_found_by_itself(store: MemoryStore, pack: type[bytes]) -> None:
    blob = put(store, pack(tar(Tar(name=b"t/a", data=b"text"))))
    assert contents(store, unpack_tar(store, blob, name="x", strip=1).listing) == {b"a": b"text"}


def test_a_tar_bomb_is_refused_by_name(store: MemoryStore) -> None:
    blob = put(store, gzip.compress(tar(Tar(name=b"zeros", data=bytes(4 << 20)))))
    with pytest.raises(InputErrors) as caught:
        unpack_tar(store, blob, name="bomb.tar.gz", limits=Limits(free_bytes=1 << 20, ratio=10))
    assert "bomb.tar.gz: an archive that unpacks to more than 1048576 bytes" in said(caught.value)


def test_many_deep_paths_in_a_small_archive_are_refused(store: MemoryStore) -> None:
    member = pax({b"path": b"a/" * 2000 + b"f"})
    with pytest.raises(InputErrors) as caught:
        unpack_tar(store, put(store, tar(member, Tar(name=b"x"))), name="x", limits=Limits(entries=1000))
    assert "more than 1000 paths" in said(caught.value)


def test_a_large_member_passes_in_constant_memory(tmp_path: Path) -> None:
    from derive.store.local import LocalStore

    with LocalStore(tmp_path / "store") as store:
        with store.blob_writer() as writer:
            squeeze = zlib.compressobj(1, wbits=31)
            size = 100 << 20
            writer.write(squeeze.compress(Tar(name=b"big", size=size).header()))
            for _ in range(100):
                writer.write(squeeze.compress(bytes(1 << 20)))
            writer.write(squeeze.compress(bytes(1024)) + squeeze.flush())
            blob = writer.commit()
        tracemalloc.start()
        listing = unpack_tar(store, blob, name="x.tar.gz").listing
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    expected = hashlib.sha256()
    for _ in range(100):
        expected.update(bytes(1 << 20))
    assert listing[b"big"] == File(executable=False, size=size, sha256=Digest(expected.hexdigest()))
    assert peak < 8 << 20


ABOUT = b"Metadata-Version: 2.1\nName: My.Demo\nVersion: 1.0\n"


def sdist(*members: Tar) -> bytes:
    return gzip.compress(tar(folder(b"my_demo-1.0"), Tar(name=b"my_demo-1.0/PKG-INFO", data=ABOUT), *members))


def test_an_sdist_loses_its_top_folder_and_must_be_what_is_expected(store: MemoryStore) -> None:
    blob = put(store, sdist(Tar(name=b"my_demo-1.0/setup.py", data=b"x")))
    got = unpack_sdist(store, blob, name="x.tar.gz", expected=Expected(name="my-demo", version="1.0.0"))
    assert contents(store, got.listing) == {b"PKG-INFO": ABOUT, b"setup.py": b"x"}
    with pytest.raises(InputErrors) as caught:
        unpack_sdist(store, blob, name="x.tar.gz", expected=Expected(name="my-demo", version="1.1"))
    assert "got       1.0" in said(caught.value)


def test_an_sdist_with_two_top_folders_or_without_pkg_info_is_refused(store: MemoryStore) -> None:
    with pytest.raises(InputErrors, match="problem"):
        unpack_sdist(store, put(store, sdist(Tar(name=b"other/x"))), name="x")
    blob = put(store, tar(Tar(name=b"top/setup.py")))
    with pytest.raises(InputErrors) as caught:
        unpack_sdist(store, blob, name="x", expected=Expected(name="a", version="1"))
    assert "PKG-INFO: a file that must be there is absent" in said(caught.value)


def test_a_deb_becomes_control_data_and_notes(store: MemoryStore) -> None:
    blob = put(
        store,
        deb(
            folder(b"./"),
            Tar(name=b"./usr/bin/su", data=b"su", mode=0o4755),
            Tar(name=b"./usr/bin/su", data=b"su2", mode=0o4755),
            symlink(b"./etc/x", b"/usr/x"),
            control=[Tar(name=b"./postinst", data=b"#!/bin/sh\n", mode=0o755)],
        ),
    )
    got = unpack_deb(store, blob, name="hello.deb")
    shown = contents(store, got.listing)
    assert shown.pop(b"control/control")
    assert shown == {
        b"control": "/",
        b"control/postinst": (b"#!/bin/sh\n", "x"),
        b"data": "/",
        b"data/etc": "/",
        b"data/etc/x": b"-> /usr/x",
        b"data/usr": "/",
        b"data/usr/bin": "/",
        b"data/usr/bin/su": (b"su2", "x"),
        b"notes": b"dropped\tdata/usr/bin/su\tmode 4755, setuid\nreplaced\tdata/usr/bin/su\n",
    }
    assert got.notes == (Dropped(b"data/usr/bin/su", "mode 4755, setuid"), Replaced(b"data/usr/bin/su"))


def test_a_deb_must_be_the_package_that_is_expected(store: MemoryStore) -> None:
    blob = put(store, deb(version="1:2.0-1"))
    unpack_deb(store, blob, name="x", expected=Expected(name="hello", version="1:2.0-1", architecture="amd64"))
    with pytest.raises(InputErrors) as caught:
        unpack_deb(store, blob, name="x", expected=Expected(name="hallo", version="2.0-1", architecture="arm64"))
    assert len(caught.value.problems()) == 3


@pytest.mark.parametrize(
    "data",
    [
        deb(Tar(name=b"../../etc/passwd")),
        deb(Tar(name=b"./dev/null", kind=b"3")),
        deb(symlink(b"./a", b"a")),
        deb(symlink(b"./a", b"/b"), symlink(b"./b", b"/a")),
        deb(symlink(b"./lib", b"usr/lib"), Tar(name=b"./lib/x")),
        deb(hardlink(b"./a", b"/etc/shadow")),
        deb(control=[symlink(b"./postinst", b"/bin/true"), Tar(name=b"./postinst/x")]),
        ar((b"debian-binary", b"2.0\n"), (b"control.tar", tar(folder(b"./"))), (b"data.tar", tar())),
    ],
)
def test_a_hostile_deb_is_refused(store: MemoryStore, data: bytes) -> None:
    with pytest.raises(InputErrors):
        unpack_deb(store, put(store, data), name="x.deb")


def test_junk_within_a_debs_member_is_refused(store: MemoryStore) -> None:
    whole = ar((b"debian-binary", b"2.0\n"), (b"control.tar", tar()), (b"data.tar.gz", gzip.compress(tar()) + b"junk"))
    with pytest.raises(Corrupt):
        unpack_deb(store, put(store, whole), name="x.deb")


def test_a_deb_of_dpkg_deb_unpacks_as_dpkg_deb_does(store: MemoryStore, tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / "DEBIAN").mkdir(parents=True)
    (top / "DEBIAN" / "control").write_text(
        "Package: demo\nVersion: 1.0-1\nArchitecture: all\nMaintainer: A <a@b.c>\nDescription: demo\n more\n"
    )
    (top / "DEBIAN" / "postinst").write_text("#!/bin/sh\nexit 0\n")
    (top / "DEBIAN" / "postinst").chmod(0o755)
    long = top / "usr" / "share" / ("d" * 120) / ("e" * 120) / ("f" * 120)
    long.mkdir(parents=True)
    (long / "ünï").write_bytes(b"x" * 100_000)
    (top / "usr" / "bin").mkdir()
    (top / "usr" / "bin" / "demo").write_text("#!/bin/sh\n")
    (top / "usr" / "bin" / "demo").chmod(0o4755)
    (top / "usr" / "bin" / "other").hardlink_to(top / "usr" / "bin" / "demo")
    (top / "usr" / "bin" / "link").symlink_to("/usr/bin/demo")
    (top / "var" / "empty").mkdir(parents=True)
    package = tmp_path / "demo.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", str(top), str(package)], check=True, capture_output=True)
    got = unpack_deb(
        store, put(store, package.read_bytes()), name="demo.deb",
        expected=Expected(name="demo", version="1.0-1", architecture="all"),
    )  # fmt: skip
    subprocess.run(["dpkg-deb", "-x", str(package), str(tmp_path / "data")], check=True)
    subprocess.run(["dpkg-deb", "-e", str(package), str(tmp_path / "control")], check=True)
    shown = contents(store, got.listing)
    assert shown.pop(b"notes") == b"".join(
        b"dropped\tdata/usr/bin/%s\tmode 4755, setuid\n" % name for name in (b"demo", b"other")
    )
    assert shown == {b"control": "/", b"data": "/"} | on_disk(tmp_path, "control") | on_disk(tmp_path, "data")


def on_disk(top: Path, folder_name: str) -> dict[bytes, object]:
    shown: dict[bytes, object] = {}
    for path in (top / folder_name).rglob("*"):
        name = bytes(path.relative_to(top))
        if path.is_symlink():
            shown[name] = b"-> " + bytes(path.readlink())
        elif path.is_dir():
            shown[name] = "/"
        else:
            data = path.read_bytes()
            shown[name] = (data, "x") if path.stat().st_mode & 0o100 else data
    return shown


def test_files_of_a_zip_stay_where_they_lie(store: MemoryStore) -> None:
    blob = put(store, zipped(Zip(name=b"a", data=b"x" * 1000), Zip(name=b"b", data=b"plain", deflate=False)))
    listing = unpack_zip(store, blob, name="x.zip").listing
    first, second = listing[b"a"], listing[b"b"]
    assert isinstance(first, File)
    assert isinstance(second, File)
    assert first.at is not None
    assert (first.at.blob, first.at.offset, first.at.method) == (blob, 31, "deflate")
    assert second.at == Location(blob, 31 + first.at.size + 31, 5, "raw")
    assert contents(store, listing) == {b"a": b"x" * 1000, b"b": b"plain"}
    assert store.has_tree(store.add_listing(listing))


def test_a_zip_keeps_folders_links_and_executables(store: MemoryStore) -> None:
    entries = (
        Zip(name=b"t/", mode=0o40755),
        Zip(name=b"t/empty/", mode=0o40755),
        Zip(name=b"t/run", data=b"#!", mode=0o100755),
        Zip(name=b"t/l", data=b"run", mode=0o120777),
        Zip(name=b"t/plain", mode=0),
        Zip(name=b"t/odd", mode=0o104700),
    )
    got = unpack_zip(store, put(store, zipped(*entries)), name="x.zip", strip=1)
    assert contents(store, got.listing) == {
        b"empty": "/",
        b"run": (b"#!", "x"),
        b"l": b"-> run",
        b"plain": b"",
        b"odd": (b"", "x"),
    }
    assert got.notes == (Dropped(b"odd", "mode 4700, setuid"),)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([Zip(name=b"l", data=b"/etc", mode=0o120777)], "leads out of the tree"),
        ([Zip(name=b"l", data=b"..", mode=0o120777)], "leads out of the tree"),
        ([Zip(name=b"l", data=b"l", mode=0o120777)], "loops"),
        ([Zip(name=b"l", data=b"d", mode=0o120777), Zip(name=b"l/x")], "goes through"),
        ([Zip(name=b"l", data=b"x" * 5000, mode=0o120777)], "a link target of"),
        ([Zip(name=b"l", mode=0o120777)], "without a target"),
        ([Zip(name=b"a"), Zip(name=b"a/b")], "lies below"),
        ([Zip(name=b"a", data=b"text", crc=1)], "not what its header says"),
        ([Zip(name=b"a", data=b"text", size=5)], "not what its header says"),
        ([Zip(name=b"a", data=b"text" * 99, size=5)], "longer than it says"),
        ([Zip(name=b"a", data=b"text", packed=b"\xff\xff\xff")], "cannot be inflated"),
        ([Zip(name=b"a", data=b"x" * 999, packed=zlib.compress(b"x" * 999)[2:-4] + b"junk")], "after the end"),
        ([Zip(name=b"a", data=b"x" * 999, packed=zlib.compress(b"x" * 999)[2:-6])], "cut short"),
        ([Zip(name=b"d/", packed=b"\3\0", stored=2, method=8, mode=0o40755, data=b"")], ""),
    ],
)
def test_a_hostile_zip_is_refused(store: MemoryStore, entries: list[Zip], why: str) -> None:
    blob = put(store, zipped(*entries))
    if not why:
        assert unpack_zip(store, blob, name="x.zip").listing == Listing.of({b"d": DIRECTORY})
        return
    with pytest.raises(DeriveError) as caught:
        unpack_zip(store, blob, name="x.zip")
    assert why in said(caught.value)
    assert "x.zip" in said(caught.value)


def test_a_bomb_that_states_a_small_size_stops_at_once(store: MemoryStore) -> None:
    entry = Zip(name=b"a", data=bytes(50 << 20), size=10)
    blob = put(store, zipped(entry))
    tracemalloc.start()
    with pytest.raises(Corrupt, match="longer than it says"):
        unpack_zip(store, blob, name="x.zip")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_a_zip_of_pythons_reads_the_same(store: MemoryStore) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("stored", b"s" * 100)
        archive.writestr("deflated", b"d" * 100, zipfile.ZIP_DEFLATED)
        with archive.open("wide", "w", force_zip64=True) as file:
            file.write(b"w" * 100)
    listing = unpack_zip(store, put(store, out.getvalue()), name="x.zip").listing
    assert contents(store, listing) == {b"stored": b"s" * 100, b"deflated": b"d" * 100, b"wide": b"w" * 100}


def test_a_wheel_must_be_what_is_expected(store: MemoryStore) -> None:
    tag = "cp313-cp313-manylinux_2_17_aarch64"
    data = wheel(Zip(name=b"demo/__init__.py", data=b"x = 1\n"), name="My_Demo", tags=[tag])
    blob = put(store, data)
    good = Expected(name="my-demo", version="1.0.0", architecture="arm64")
    assert b"demo/__init__.py" in unpack_wheel(store, blob, name="w.whl", expected=good).listing
    bad = Expected(name="other", version="2", architecture="amd64")
    with pytest.raises(InputErrors) as caught:
        unpack_wheel(store, blob, name="w.whl", expected=bad)
    assert len(caught.value.problems()) == 3
    assert "got       arm64" in said(caught.value)


def test_a_wheel_holds_no_links(store: MemoryStore) -> None:
    blob = put(store, wheel(Zip(name=b"l", data=b"demo", mode=0o120777)))
    with pytest.raises(InputErrors) as caught:
        unpack_wheel(store, blob, name="w.whl")
    assert "w.whl: l: a symbolic link in a wheel" in said(caught.value)


def test_a_tar_of_times_before_the_epoch_and_no_times_unpacks(store: MemoryStore) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        info = tarfile.TarInfo("a")
        info.mtime = -5
        archive.addfile(info)
    assert contents(store, unpack_tar(store, put(store, out.getvalue()), name="x").listing) == {b"a": b""}


def test_a_record_line_of_the_test_helpers_is_right() -> None:
    assert record_line(b"a", b"") == b"a,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n"
