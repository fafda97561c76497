# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from derive.archives import unpack_wheel
from derive.errors import DeriveError
from derive.store.memory import MemoryStore
from derive.trees.listing import File, Listing
from derive.trees.pack import NewFile, add_members
from derive.wheels.install import Scheme, install_wheel
from derive.wheels.record import add_record
from support.archives import Zip, contents, put, record_line, said, wheel
from support.require import skip_or_fail

SCHEME = Scheme(python="3.13")
SITE = b"usr/local/lib/python3.13/dist-packages/"
INFO = b"demo-1.0.dist-info/"
DATA = b"demo-1.0.data/"
RUN = 0o100755
SCRIPT = b"#!python -E\r\nimport sys\n"


def unpack(store: MemoryStore, data: bytes) -> Listing:
    return unpack_wheel(store, put(store, data), name="demo.whl").listing


def install(*entries: Zip, requested: bool = False, scheme: Scheme = SCHEME, **about: str) -> dict[bytes, object]:
    """Install a wheel, and return its files without METADATA, WHEEL and folders."""
    store = MemoryStore()
    listing = unpack(store, wheel(*entries, **about))  # type: ignore[arg-type]
    installed = install_wheel(store, listing, name="demo.whl", scheme=scheme, requested=requested)
    shown = contents(store, installed.listing)
    return {p: v for p, v in shown.items() if v != "/" and not p.endswith((b"/METADATA", b"/WHEEL"))}


def refusal(*entries: Zip, **about: str) -> str:
    with pytest.raises(DeriveError) as caught:
        install(*entries, **about)  # type: ignore[arg-type]
    return said(caught.value)


def test_packages_go_to_dist_packages_with_the_installers_name_and_no_record() -> None:
    tree = install(Zip(name=b"demo/__init__.py", data=b"x = 1\n"), Zip(name=b"demo.py", data=b"", mode=RUN))
    assert tree == {
        SITE + b"demo/__init__.py": b"x = 1\n",
        SITE + b"demo.py": (b"", "x"),
        SITE + INFO + b"INSTALLER": b"derive\n",
    }


def test_the_keys_of_the_data_folder_go_where_the_scheme_says() -> None:
    tree = install(
        Zip(name=DATA + b"purelib/p.py", data=b"p"),
        Zip(name=DATA + b"platlib/q.so", data=b"q"),
        Zip(name=DATA + b"headers/demo.h", data=b"h"),
        Zip(name=DATA + b"data/share/man/demo.1", data=b"m"),
        Zip(name=DATA + b"scripts/tool", data=b"\x7fELF"),
        Zip(name=DATA + b"scripts/script", data=SCRIPT),
        name="demo",
    )
    assert tree == {
        SITE + b"p.py": b"p",
        SITE + b"q.so": b"q",
        b"usr/local/include/python3.13/demo/demo.h": b"h",
        b"usr/local/share/man/demo.1": b"m",
        b"usr/local/bin/tool": (b"\x7fELF", "x"),
        b"usr/local/bin/script": (b"#!/usr/bin/python3\nimport sys\n", "x"),
        SITE + INFO + b"INSTALLER": b"derive\n",
    }


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (b"#!python\nx", b"#!/usr/bin/python3\nx"),
        (b"#!pythonw\nx", b"#!/usr/bin/python3\nx"),
        (b"#!python", b"#!/usr/bin/python3\n"),
        (b"#!/bin/sh\nx", b"#!/bin/sh\nx"),
        (b"#! python\nx", b"#! python\nx"),
        (b"", b""),
        (b"#!python" + b"x" * (2 << 20) + b"\nend", b"#!/usr/bin/python3\nend"),
    ],
)
def test_only_the_line_that_asks_for_it_is_rewritten(script: bytes, text: bytes) -> None:
    tree = install(Zip(name=DATA + b"scripts/s", data=script))
    assert tree[b"usr/local/bin/s"] == (text, "x")


def test_prefix_python_and_interpreter_are_arguments() -> None:
    scheme = Scheme(python="3.12", prefix=b"opt/x", interpreter="/opt/python3")
    tree = install(Zip(name=b"a.py"), Zip(name=DATA + b"scripts/s", data=b"#!python\n"), scheme=scheme)
    assert tree[b"opt/x/bin/s"] == (b"#!/opt/python3\n", "x")
    assert b"opt/x/lib/python3.12/dist-packages/a.py" in tree


ENTRY_POINTS = b"[console_scripts]\ndemo = demo:main [extra1, extra2]\n[gui_scripts]\ndemo-gui = demo.gui:App.run\n"


def test_entry_points_with_extras_become_commands() -> None:
    tree = install(Zip(name=INFO + b"entry_points.txt", data=ENTRY_POINTS))
    assert isinstance(tree[b"usr/local/bin/demo"], tuple)
    assert tree[b"usr/local/bin/demo"][0].startswith(b"#!/usr/bin/python3\nimport sys\n")
    assert b"from demo.gui import App" in tree[b"usr/local/bin/demo-gui"][0]  # type: ignore[index]


def test_a_command_runs(tmp_path: Path) -> None:
    scheme = Scheme(python="3.13", interpreter=sys.executable)
    main = b"import sys\ndef main():\n    print('hello', sys.argv[1:])\n    return 3\n"
    entry = Zip(name=INFO + b"entry_points.txt", data=b"[console_scripts]\ndemo = demo:main\n")
    tree = install(Zip(name=b"demo.py", data=main), entry, scheme=scheme)
    (tmp_path / "demo.py").write_bytes(main)
    (tmp_path / "demo").write_bytes(tree[b"usr/local/bin/demo"][0])  # type: ignore[index]
    done = subprocess.run([sys.executable, tmp_path / "demo", "a"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "hello ['a']\n")


@pytest.mark.parametrize("info", ["DEMO-1.0.dist-info", "Demo-1.0.Dist-Info", "demo-1.dist-info"])
def test_a_dist_info_in_odd_case_is_installed_under_its_own_name(info: str) -> None:
    tree = install(Zip(name=b"a.py"), info=info)
    assert SITE + info.encode() + b"/INSTALLER" in tree


def test_a_data_folder_in_odd_case_is_one() -> None:
    assert b"usr/local/bin/s" in install(Zip(name=b"Demo-1.0.data/scripts/s", data=b"x"))


def test_what_installers_leave_behind_is_not_installed() -> None:
    names = (b"direct_url.json", b"REQUESTED", b"INSTALLER", b"RECORD.jws", b"RECORD.p7s", b"uv_cache.json")
    tree = install(*[Zip(name=INFO + name, data=b"theirs") for name in names])
    assert tree == {SITE + INFO + b"INSTALLER": b"derive\n"}


def test_requested_is_marked_when_asked() -> None:
    assert install(requested=True)[SITE + INFO + b"REQUESTED"] == b""


def test_byte_code_of_the_wheel_is_left_out_and_the_log_says_so() -> None:
    store = MemoryStore()
    listing = unpack(store, wheel(Zip(name=b"a.py"), Zip(name=b"__pycache__/a.cpython-313.pyc", data=b"x")))
    installed = install_wheel(store, listing, name="w", scheme=SCHEME)
    assert SITE + b"a.py" in installed.listing
    assert not any(path.endswith(b".pyc") for path in installed.listing)
    assert installed.log == ("not installed: __pycache__/a.cpython-313.pyc",)


def test_a_newer_format_of_version_one_is_logged() -> None:
    store = MemoryStore()
    installed = install_wheel(store, unpack(store, wheel(wheel_version="1.9")), name="w", scheme=SCHEME)
    assert installed.log == ("format 1.9, newer than 1.0",)


def test_contents_do_not_move() -> None:
    """Only places change: an installed file is the same slice of the wheel."""
    store = MemoryStore()
    listing = unpack(store, wheel(Zip(name=b"demo/big.bin", data=b"x" * 5000)))
    installed = install_wheel(store, listing, name="w", scheme=SCHEME).listing
    before, after = listing[b"demo/big.bin"], installed[SITE + b"demo/big.bin"]
    assert isinstance(before, File)
    assert isinstance(after, File)
    assert after.at == before.at


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([Zip(name=b"a.py"), Zip(name=DATA + b"purelib/a.py")], "two files of a wheel go here"),
        ([Zip(name=DATA + b"platlib/a.py"), Zip(name=DATA + b"purelib/a.py")], "two files of a wheel go here"),
        (
            [Zip(name=DATA + b"scripts/demo"), Zip(name=INFO + b"entry_points.txt", data=ENTRY_POINTS)],
            "/usr/local/bin/demo: two files of a wheel go here",
        ),
        ([Zip(name=DATA + b"data/bin/s"), Zip(name=DATA + b"scripts/s")], "two files of a wheel go here"),
        ([Zip(name=b"a"), Zip(name=DATA + b"purelib/a/b")], "lies below"),
        ([Zip(name=DATA + b"secrets/x")], "goes to no known place"),
        ([Zip(name=DATA + b"x")], "goes to no known place"),
        ([Zip(name=b"other-1.0.data/scripts/x")], "named after another distribution"),
        ([Zip(name=INFO + b"entry_points.txt", data=b"[console_scripts]\nx = y\n")], "no command can be made"),
    ],
)
def test_a_wheel_that_cannot_be_laid_out_is_refused(entries: list[Zip], why: str) -> None:
    assert why in refusal(*entries)


@pytest.mark.parametrize(
    ("about", "why"),
    [
        ({"wheel_version": "2.0"}, "only 1.x is known"),
        ({"info": "other-1.0.dist-info"}, "named after another distribution"),
        ({"metadata": "Name: ../demo\nVersion: 1.0\n"}, "no name of a project"),
        ({"record": b"demo.py,,\n"}, "RECORD"),
    ],
)
def test_a_wheel_with_wrong_metadata_is_refused(about: dict[str, str], why: str) -> None:
    assert why in refusal(**about)


def test_installed_twice_from_two_stores_it_is_the_same_tree() -> None:
    digests = set()
    for _ in range(2):
        store = MemoryStore()
        data = wheel(Zip(name=b"demo.py", data=b"x"), Zip(name=INFO + b"entry_points.txt", data=ENTRY_POINTS))
        installed = install_wheel(store, unpack(store, data), name="w", scheme=SCHEME).listing
        recorded = add_record(store, installed, SITE.rstrip(b"/"), name="w")
        digests.add(store.add_listing(recorded))
    assert len(digests) == 1


def test_a_wheel_of_files_without_valid_times_is_installed_like_any_other() -> None:
    """Times of 1970 come out of zip tools as month and day zero; nothing here reads them."""
    entries = [Zip(name=b"demo.py", data=b"x", date=date) for date in (0, 0x0021, 0xFFFF)]
    assert len({tuple(install(entry).items()) for entry in entries}) == 1


def test_pip_installs_the_same_files(tmp_path: Path) -> None:
    """All of them, but for what is generated: INSTALLER, RECORD, commands, and pip's own marks."""
    if importlib.util.find_spec("pip") is None:
        skip_or_fail("pip is not in this environment")
    python = f"3.{sys.version_info.minor}"
    data = wheel(
        Zip(name=b"demo/__init__.py", data=b"x = 1\n"),
        Zip(name=b"demo/tool", data=b"#!", mode=RUN),
        Zip(name=DATA + b"purelib/other.py", data=b"o"),
        Zip(name=DATA + b"scripts/script", data=b"#!python\nprint(1)\n", mode=RUN),
        Zip(name=DATA + b"data/share/demo.txt", data=b"d"),
        Zip(name=DATA + b"headers/demo.h", data=b"h"),
        Zip(name=INFO + b"entry_points.txt", data=ENTRY_POINTS),
    )
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    path.write_bytes(data)
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-compile", "--no-deps", "--no-index"]
    options = [
        "--ignore-installed",
        "--no-warn-script-location",
        "--root",
        str(tmp_path / "root"),
        "--prefix",
        "/usr/local",
    ]
    subprocess.run([*command, *options, str(path)], check=True, capture_output=True)
    top = tmp_path / "root" / "usr" / "local"
    store = MemoryStore()
    ours = install_wheel(store, unpack(store, data), name="w", scheme=Scheme(python=python)).listing
    generated = {"INSTALLER", "RECORD", "REQUESTED", "direct_url.json"}
    commands = {"usr/local/bin/demo", "usr/local/bin/demo-gui", "usr/local/bin/script"}
    theirs: dict[str, object] = {}
    for file in top.rglob("*"):
        name = f"usr/local/{file.relative_to(top)}".replace("site-packages", "dist-packages").replace("/site/", "/")
        if file.is_file() and file.name not in generated:
            text = hashlib.sha256(file.read_bytes()).hexdigest() if name not in commands else ""
            theirs[name] = (bool(file.stat().st_mode & 0o100), text)
    mine = {
        path.decode(): (file.executable, file.sha256.hex if path.decode() not in commands else "")
        for path, file in ours.files()
        if path.rpartition(b"/")[2].decode() not in generated
    }
    assert mine == theirs


def patched(*changes: tuple[bytes, bytes], record: bytes | None = None) -> dict[bytes, object]:
    """Install a wheel with files replaced or added after RECORD was written; empty contents remove one."""
    store = MemoryStore()
    data = wheel(Zip(name=b"demo.py", data=b"x = 1\n"), Zip(name=b"gone.py", data=b"y = 1\n"), record=record)
    listing = unpack(store, data)
    entries = dict(listing)
    for path, contents_ in changes:
        new = add_members(store, [(path, NewFile(executable=False, chunks=[contents_]))])
        entries |= dict(new) if contents_ else {}
        if not contents_:
            del entries[path]
    installed = install_wheel(store, listing, name="demo.whl", scheme=SCHEME, patched=Listing.of(entries))
    shown = contents(store, installed.listing)
    return {path: value for path, value in shown.items() if value != "/" and not path.endswith(b"/WHEEL")}


ABOUT = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"


def test_of_a_patched_wheel_the_patched_tree_is_installed_its_commands_too() -> None:
    tree = patched(
        (b"demo.py", b"x = 2\n"),
        (b"gone.py", b""),
        (b"new/__init__.py", b"z = 1\n"),
        (INFO + b"METADATA", ABOUT + b"Requires-Dist: other\n"),
        (INFO + b"entry_points.txt", b"[console_scripts]\nrun = demo:x\n"),
    )
    command = tree.pop(b"usr/local/bin/run")
    assert isinstance(command, tuple)
    assert b"from demo import x" in command[0]
    assert tree == {
        SITE + b"demo.py": b"x = 2\n",
        SITE + b"new/__init__.py": b"z = 1\n",
        SITE + INFO + b"METADATA": ABOUT + b"Requires-Dist: other\n",
        SITE + INFO + b"entry_points.txt": b"[console_scripts]\nrun = demo:x\n",
        SITE + INFO + b"INSTALLER": b"derive\n",
    }


def test_a_record_speaks_of_the_wheel_as_it_came_whatever_patches_made_of_it() -> None:
    with pytest.raises(DeriveError) as caught:
        patched((b"demo.py", b"x = 2\n"), record=record_line(b"demo.py", b"x = 2\n"))
    assert "demo.whl: demo.py: RECORD states another hash" in said(caught.value)


def test_a_patch_of_record_or_of_whose_wheel_it_is_is_refused() -> None:
    with pytest.raises(DeriveError) as caught:
        patched((INFO + b"RECORD", b"demo.py,,\n"))
    assert "demo-1.0.dist-info/RECORD: changed by a patch, and it is written anew" in said(caught.value)
    with pytest.raises(DeriveError) as caught:
        patched((INFO + b"METADATA", ABOUT.replace(b"1.0", b"2.0")))
    assert "a folder named after another distribution" in said(caught.value)


def dropping(*patterns: str) -> tuple[set[bytes], tuple[str, ...]]:
    """Install a wheel without what fits the patterns, and return the modules that are there, and the log."""
    store = MemoryStore()
    listing = unpack(store, wheel(*(Zip(name=name, data=b"x = 1\n") for name in (b"a.py", b"t/b.py", b"t/u/c.py"))))
    installed = install_wheel(store, listing, name="demo.whl", scheme=SCHEME, drop=patterns)
    modules = {path.removeprefix(SITE) for path, _ in installed.listing.files() if path.endswith(b".py")}
    return modules, installed.log


def test_files_that_fit_a_pattern_are_not_installed_and_the_log_names_them() -> None:
    assert dropping("t/*") == ({b"a.py"}, ("dropped: t/b.py", "dropped: t/u/c.py"))
    assert dropping("a.py", "*/c.py")[0] == {b"t/b.py"}


def test_a_pattern_that_fits_no_file_is_refused_and_metadata_is_no_file() -> None:
    with pytest.raises(DeriveError) as caught:
        dropping("a.py", "z*", "*/METADATA")
    assert said(caught.value).count("drop: no file of this wheel fits") == 2
