# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest, sha256
from derive.errors import Corrupt, HostRefuses, InputErrors, Missing
from derive.images.layout import check_destination, export_archive, export_folder, export_image
from derive.images.oci import named_blobs
from derive.store.local import LocalStore
from derive.store.memory import MemoryStore
from support.layers import FIELD, blob, image, tree
from support.require import skip_or_fail


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def built(store: MemoryStore) -> Digest:
    return image(store, tree(store, FIELD), tree(store, {b"etc/x": b"x"}))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_holds_the_layout_the_index_and_every_blob(store: MemoryStore, built: Digest, tmp_path: Path) -> None:
    export_folder(store, built, name="probe", destination=tmp_path / "out")
    manifest = blob(store, built)
    names = [built, *(named.digest for named in named_blobs(manifest))]
    found = files(tmp_path / "out")
    assert set(found) == {"oci-layout", "index.json", *(f"blobs/sha256/{name.hex}" for name in names)}
    assert found["oci-layout"] == b'{"imageLayoutVersion":"1.0.0"}'
    assert all(sha256(found[f"blobs/sha256/{name.hex}"]) == name for name in names)
    entry = json.loads(found["index.json"])["manifests"][0]
    assert (entry["digest"], entry["size"]) == (str(built), len(manifest))
    assert entry["annotations"] == {
        "org.opencontainers.image.ref.name": "probe",
        "io.containerd.image.name": "localhost/probe:latest",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_archive_is_the_same_layout_as_one_file_with_dockers_manifest(
    store: MemoryStore, built: Digest, tmp_path: Path
) -> None:
    export_folder(store, built, name="probe", destination=tmp_path / "out")
    export_archive(store, built, name="probe", destination=tmp_path / "out.tar")
    with tarfile.open(tmp_path / "out.tar") as tar:
        opened = {member.name: tar.extractfile(member) for member in tar if member.isfile()}
        found = {name: file.read() for name, file in opened.items() if file}
    listed = json.loads(found.pop("manifest.json"))
    config, *layers = (f"blobs/sha256/{named.digest.hex}" for named in named_blobs(blob(store, built)))
    assert listed == [{"Config": config, "RepoTags": ["localhost/probe:latest"], "Layers": layers}]
    assert found == files(tmp_path / "out")
    export_archive(store, built, name="probe", destination=tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == (tmp_path / "out.tar").read_bytes()


def test_the_destinations_ending_says_which_of_the_two(store: MemoryStore, built: Digest, tmp_path: Path) -> None:
    export_image(store, built, "probe", tmp_path / "x.tar")
    export_image(store, built, "probe", str(tmp_path / "x"))
    assert tarfile.is_tarfile(tmp_path / "x.tar")
    assert (tmp_path / "x/index.json").is_file()


def test_blobs_are_linked_to_the_stores_where_they_can_be(tmp_path: Path) -> None:
    with LocalStore(tmp_path / "store") as store:
        built = image(store, tree(store, FIELD))
        export_folder(store, built, name="probe", destination=tmp_path / "out")
        exported = tmp_path / "out/blobs/sha256" / built.hex
        assert exported.samefile(Path(store.blob_path(built)))


def test_blobs_are_copied_where_links_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    with LocalStore(tmp_path / "store") as store:
        built = image(store, tree(store, FIELD))
        monkeypatch.setattr(os, "link", refuse)
        export_folder(store, built, name="probe", destination=tmp_path / "out")
        exported = tmp_path / "out/blobs/sha256" / built.hex
        assert not exported.samefile(Path(store.blob_path(built)))
        assert sha256(exported.read_bytes()) == built


def test_an_empty_folder_and_an_earlier_export_are_replaced(store: MemoryStore, built: Digest, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    export_folder(store, built, name="one", destination=tmp_path / "out")
    other = image(store, tree(store, {b"other": b"other"}))
    export_folder(store, other, name="two", destination=tmp_path / "out")
    assert json.loads((tmp_path / "out/index.json").read_bytes())["manifests"][0]["digest"] == str(other)
    assert not (tmp_path / "out/blobs/sha256" / built.hex).exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("content", [["mine"], ["oci-layout", "index.json", "blobs/x"], ["index.json"]])
def test_a_folder_with_anything_else_is_refused(
    store: MemoryStore, built: Digest, tmp_path: Path, content: list[str]
) -> None:
    for name in content:
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("{}")
    before = files(tmp_path)
    with pytest.raises(InputErrors) as caught:
        export_folder(store, built, name="probe", destination=tmp_path / "out")
    assert "holds other files than an image exported before" in caught.value.problems()[0].message
    assert files(tmp_path) == before


def test_an_export_to_which_a_file_was_added_is_refused(store: MemoryStore, built: Digest, tmp_path: Path) -> None:
    export_folder(store, built, name="probe", destination=tmp_path / "out")
    (tmp_path / "out/notes").write_text("mine")
    with pytest.raises(InputErrors):
        export_folder(store, built, name="probe", destination=tmp_path / "out")


def test_a_destination_of_the_wrong_kind_is_refused(store: MemoryStore, built: Digest, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("file", "link", "absent/out"):
        with pytest.raises(InputErrors):
            export_folder(store, built, name="probe", destination=tmp_path / name)
    for name in ("absent/out.tar", "."):
        with pytest.raises(InputErrors):
            export_archive(store, built, name="probe", destination=tmp_path / name)


def test_a_name_that_oci_refuses_is_refused_before_anything_is_written(
    store: MemoryStore, built: Digest, tmp_path: Path
) -> None:
    with pytest.raises(InputErrors):
        export_folder(store, built, name="a b", destination=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_image_that_is_not_in_the_store_is_missing(store: MemoryStore, tmp_path: Path) -> None:
    with pytest.raises(Missing):
        export_folder(store, sha256(b"absent"), name="probe", destination=tmp_path / "out")


def test_damaged_bytes_leave_nothing_behind(store: MemoryStore, built: Digest, tmp_path: Path) -> None:
    layer = named_blobs(blob(store, built))[1]
    store._blobs[layer.digest] = bytes(layer.size)
    for export, name in ((export_folder, "out"), (export_archive, "out.tar")):
        with pytest.raises(Corrupt, match="not what its name says"):
            export(store, built, name="probe", destination=tmp_path / name)
    store._blobs[layer.digest] = b"short"
    with pytest.raises(Corrupt, match="another size"):
        export_folder(store, built, name="probe", destination=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_keeps_the_earlier_export(
    store: MemoryStore, built: Digest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_folder(store, built, name="probe", destination=tmp_path / "out")
    export_archive(store, built, name="probe", destination=tmp_path / "out.tar")
    before = files(tmp_path)

    def full(*_: object) -> Iterator[bytes]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for export, name in ((export_folder, "out"), (export_archive, "out.tar")):
        with pytest.raises(HostRefuses, match=r"(?i)no space left on device"):
            export(store, built, name="other", destination=tmp_path / name)
    assert files(tmp_path) == before


@pytest.fixture
def skopeo() -> str:
    return shutil.which("skopeo") or skip_or_fail("skopeo is not installed")


@pytest.mark.parametrize("platform", ["linux/amd64", "linux/arm64"])
def test_skopeo_reads_folder_and_archive(store: MemoryStore, tmp_path: Path, skopeo: str, platform: str) -> None:
    built = image(store, tree(store, FIELD), platform=platform)
    export_folder(store, built, name="probe", destination=tmp_path / "out")
    export_archive(store, built, name="probe", destination=tmp_path / "out.tar")
    for source in (f"oci:{tmp_path}/out:probe", f"oci-archive:{tmp_path}/out.tar:probe"):
        command = [skopeo, "--override-arch", platform.partition("/")[2], "inspect", source]
        seen = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        assert (seen["Digest"], f"{seen['Os']}/{seen['Architecture']}") == (str(built), platform)
        assert seen["Created"] == "1980-01-01T00:00:00Z"
        assert seen["Labels"] == {"io.derive.derivation": str(sha256(b"a derivation"))}


def test_skopeo_copies_to_a_docker_archive_and_to_another_layout(
    store: MemoryStore, built: Digest, tmp_path: Path, skopeo: str
) -> None:
    export_folder(store, built, name="probe", destination=tmp_path / "out")
    source = f"oci:{tmp_path}/out:probe"
    policy = ["--insecure-policy", "--override-arch", "amd64", "copy", "--quiet", source]
    subprocess.run([skopeo, *policy, f"docker-archive:{tmp_path}/docker.tar:probe:1"], check=True)
    with tarfile.open(tmp_path / "docker.tar") as tar:
        manifest = tar.extractfile("manifest.json")
        assert manifest is not None
        config = json.load(manifest)[0]["Config"]
        assert config == f"{named_blobs(blob(store, built))[0].digest.hex}.json"
    subprocess.run([skopeo, *policy, f"oci:{tmp_path}/copy:probe"], check=True)
    assert (tmp_path / "copy/blobs/sha256" / built.hex).read_bytes() == blob(store, built)


def test_whether_a_layout_can_be_written_is_found_out_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    check_destination(tmp_path / "new")
    check_destination(tmp_path / "new.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]
    for place in (tmp_path / "full", tmp_path / "none" / "new", tmp_path / "none" / "new.tar"):
        with pytest.raises(InputErrors):
            check_destination(place)
    with pytest.raises(HostRefuses):
        check_destination("/proc/new")
