# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from derive.errors import InputErrors
from derive.kernels import bundle
from derive.kernels.bundle import Member, lay_out, program_members, site_of, site_path, text_member, write_bundle
from support.folders import read_folder


def wheel(folder: Path, name: str, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(folder / name, "w") as archive:
        for path, data in files.items():
            info = zipfile.ZipInfo(path)
            info.external_attr = (0o755 if path.endswith(".bin") else 0o644) << 16
            archive.writestr(info, data)


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name in bundle.WHEELS:
        project = name.replace("-", "_")
        wheel(folder, f"{project}-1.0-py3-none-any.whl", {f"{project}/__init__.py": name.encode()})
    return folder


def written(members: list[Member], *, jobs: int = 2) -> bytes:
    file = io.BytesIO()
    assert write_bundle(members, file, jobs=jobs) == len(file.getvalue())
    return file.getvalue()


def test_what_is_packed_is_unpacked_again(tmp_path: Path) -> None:
    members = [
        text_member("run.py", "print()\n"),
        text_member("cache/0.1/kernels/x", "x"),
        Member(path="cache/0.1/.staging"),
        Member(path="site/tool", executable=True, size=3, read=lambda: (b"a", b"bc")),
        Member(path="site/link", link="tool"),
    ]
    start = lay_out(members, tmp_path / "out")
    (tmp_path / "b").write_bytes(written(members))
    subprocess.run(["tar", "-xJf", "b"], cwd=tmp_path, check=True)
    assert read_folder(tmp_path / "kernels") == read_folder(start.parent)
    top = start.parent
    assert start.read_text() == "print()\n"
    assert (top / "cache/0.1/.staging").is_dir()
    assert (top / "site/link").read_bytes() == b"abc"
    assert os.access(top / "site/tool", os.X_OK)
    assert not os.access(top / "run.py", os.X_OK)


def test_the_bytes_depend_on_neither_order_nor_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "_CHUNK_BYTES", 1000)
    members = [text_member(f"site/{index}", str(index) * 700) for index in range(20)]
    assert written(members, jobs=1) == written(members[::-1], jobs=7)


def test_members_have_one_time_and_no_owner() -> None:
    with tarfile.open(fileobj=io.BytesIO(written([text_member("run.py", "")])), mode="r:xz") as archive:
        (member,) = archive.getmembers()
    assert (member.name, member.mtime, member.uid, member.gid, member.uname) == ("kernels/run.py", 315532800, 0, 0, "")


def test_two_files_of_one_name_are_refused() -> None:
    with pytest.raises(InputErrors) as caught:
        written([text_member("site/x", "1"), text_member("site/x", "2")])
    assert [problem.where for problem in caught.value.problems()] == ["site/x"]


def test_a_wheel_gives_what_lies_on_the_import_path() -> None:
    paths = (
        "z3/core.py",
        "z3-4.data/purelib/more.py",
        "z3-4.data/data/bin/z3",
        "z3-4.data/scripts/z3",
        "z3-4.data/purelib/",
    )
    assert [site_path(path) for path in paths] == ["z3/core.py", "more.py", None, None, None]


def test_a_library_that_is_in_a_wheel_twice_becomes_a_link(wheels: Path) -> None:
    data = os.urandom(1 << 20)
    wheel(wheels, "extra-1.0-py3-none-any.whl", {"lib/x.so": data, "lib/x.so.1": data, "lib/y.so": data + b"y"})
    found = {one.path: one for one in site_of(wheels).members}
    assert found["site/lib/x.so.1"].link == "x.so"
    assert found["site/lib/y.so"].link is None
    assert b"".join((found["site/lib/x.so"].read or tuple)()) == data


def test_every_wheel_that_is_absent_or_there_twice_is_named(wheels: Path) -> None:
    (wheels / "z3_solver-1.0-py3-none-any.whl").unlink()
    (wheels / "tilelang-2.0-py3-none-any.whl").write_bytes(b"no zip")
    with pytest.raises(InputErrors) as caught:
        site_of(wheels)
    assert {problem.message for problem in caught.value.problems()} == {
        "no wheel of z3-solver",
        "several wheels of tilelang",
        "not a wheel",
    }


def test_the_programs_import_nothing_of_derive() -> None:
    texts = {one.path: b"".join(one.read()).decode() for one in program_members() if one.read is not None}
    assert {"run.py", "gpu/main.py", "gpu/timing.py", "gpu/boot.py"} <= texts.keys()
    lines = [line.strip() for text in texts.values() for line in text.splitlines()]
    assert not [line for line in lines if line.startswith(("import derive", "from derive"))]
