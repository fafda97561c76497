# SPDX-License-Identifier: Apache-2.0
"""The private Docker engine that other tests lean on: it runs hand-made images, keeps digests and leaves nothing."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from docker.errors import DockerException, ImageLoadError

from support.docker_engine import (
    DockerEngine,
    EngineError,
    EngineUnavailableError,
    ImageStore,
    default_binaries,
    docker_engine,
    why_unavailable,
)
from support.require import skip_or_fail

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
BUSYBOX = Path("/bin/busybox")
FILLER = random.Random(1).randbytes(5 << 20)
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
OCI = "application/vnd.oci.image"


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyImage:
    archive: Path
    manifest: str
    config: str


def one_member(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def member_per_mebibyte(data: bytes) -> bytes:
    return b"".join(gzip.compress(data[at : at + (1 << 20)], mtime=0) for at in range(0, len(data), 1 << 20))


ENCODINGS = {"one-member": one_member, "many-members": member_per_mebibyte}


@pytest.fixture(scope="module")
def binaries() -> Path:
    reason = why_unavailable(default_binaries())
    if reason is not None:
        skip_or_fail(reason)
    return default_binaries()


@pytest.fixture(params=list(ImageStore), ids=lambda store: store.value, scope="module")
def engine(request: pytest.FixtureRequest, binaries: Path) -> Iterator[DockerEngine]:
    with docker_engine(store=request.param, binaries=binaries) as running:
        yield running


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TinyImage]:
    if not BUSYBOX.exists():
        skip_or_fail(f"{BUSYBOX} is missing: install the package busybox-static")
    folder, layer = tmp_path_factory.mktemp("images"), tiny_layer()
    return {name: write_image(folder / f"{name}.tar", name=name, layer_tar=layer) for name in ENCODINGS}


@pytest.fixture(params=list(ENCODINGS))
def image(request: pytest.FixtureRequest, images: dict[str, TinyImage]) -> TinyImage:
    """The same layer in every encoding."""
    return images[request.param]


@pytest.fixture
def loaded(engine: DockerEngine, images: dict[str, TinyImage]) -> str:
    """The name of an image that the engine has loaded."""
    (loaded,) = engine.load(images["one-member"].archive)
    return loaded.reference


def tiny_layer() -> bytes:
    """Busybox and enough incompressible bytes to fill several gzip members."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for path, data in (("bin/busybox", BUSYBOX.read_bytes()), ("filler", FILLER)):
            add_file(layer, path, data)
    return buffer.getvalue()


def add_file(archive: tarfile.TarFile, path: str, data: bytes) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode, entry.mtime = len(data), 0o755, 315532800
    archive.addfile(entry, io.BytesIO(data))


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def write_image(archive: Path, *, name: str, layer_tar: bytes, with_docker_manifest: bool = True) -> TinyImage:
    """Write an OCI layout as a tar, with the manifest.json by which Docker's older store finds the same blobs."""
    layer = ENCODINGS[name](layer_tar)
    rootfs = {"type": "layers", "diff_ids": [digest(layer_tar)]}
    config = json.dumps({"architecture": ARCHITECTURE, "os": "linux", "config": {}, "rootfs": rootfs}).encode()

    def descriptor(kind: str, data: bytes) -> dict[str, object]:
        return {"mediaType": f"{OCI}.{kind}", "digest": digest(data), "size": len(data)}

    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": descriptor("config.v1+json", config),
            "layers": [descriptor("layer.v1.tar+gzip", layer)],
        }
    ).encode()
    annotations = {"io.containerd.image.name": f"docker.io/library/tiny:{name}"}
    listed = descriptor("manifest.v1+json", manifest) | {"annotations": annotations}
    blobs = {f"blobs/sha256/{digest(data)[7:]}": data for data in (config, layer, manifest)}
    config_path, layer_path, _ = blobs
    docker_manifest = [{"Config": config_path, "RepoTags": [f"tiny:{name}"], "Layers": [layer_path]}]
    with tarfile.open(archive, "w") as layout:
        add_file(layout, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        add_file(layout, "index.json", json.dumps({"schemaVersion": 2, "manifests": [listed]}).encode())
        if with_docker_manifest:
            add_file(layout, "manifest.json", json.dumps(docker_manifest).encode())
        for path, data in blobs.items():
            add_file(layout, path, data)
    return TinyImage(archive=archive, manifest=digest(manifest), config=digest(config))


def test_engine_is_recent_and_uses_the_store_asked_for(engine: DockerEngine) -> None:
    drivers = {ImageStore.CONTAINERD: "overlayfs", ImageStore.OVERLAY2: "overlay2"}
    assert engine.client.info()["Driver"] == drivers[engine.store]
    assert int(engine.client.version()["Version"].split(".")[0]) >= 26


def test_loaded_image_keeps_its_digest_and_its_bytes(engine: DockerEngine, image: TinyImage) -> None:
    (loaded,) = engine.load(image.archive)
    kept = {ImageStore.CONTAINERD: image.manifest, ImageStore.OVERLAY2: image.config}
    assert loaded.id == kept[engine.store]
    result = engine.run(loaded.reference, ["/bin/busybox", "sha256sum", "/filler"])
    assert result.stdout == f"{hashlib.sha256(FILLER).hexdigest()}  /filler\n"


def test_container_returns_exit_code_and_both_streams(engine: DockerEngine, loaded: str) -> None:
    result = engine.run(loaded, ["/bin/busybox", "sh", "-c", "echo out; echo err >&2; exit 7"])
    assert (result.rc, result.stdout, result.stderr) == (7, "out\n", "err\n")


def test_container_has_no_network_but_its_own_loopback(engine: DockerEngine, loaded: str) -> None:
    assert engine.run(loaded, ["/bin/busybox", "ls", "/sys/class/net"]).stdout.split() == ["lo"]


def test_container_that_hangs_is_stopped_at_its_time_limit(engine: DockerEngine, loaded: str) -> None:
    with pytest.raises(TimeoutError, match="did not end within 1 s"):
        engine.run(loaded, ["/bin/busybox", "sleep", "60"], timeout_seconds=1)
    assert engine.client.containers.list(all=True) == []


def test_program_that_is_not_in_the_image_is_an_error(engine: DockerEngine, loaded: str) -> None:
    with pytest.raises(DockerException, match="no such file"):
        engine.run(loaded, ["/bin/absent"])


def test_containerd_store_alone_reads_a_layout_without_docker_manifest(engine: DockerEngine, tmp_path: Path) -> None:
    plain = write_image(tmp_path / "plain.tar", name="one-member", layer_tar=tiny_layer(), with_docker_manifest=False)
    match engine.store:
        case ImageStore.CONTAINERD:
            assert [loaded.id for loaded in engine.load(plain.archive)] == [plain.manifest]
        case ImageStore.OVERLAY2:
            with pytest.raises(ImageLoadError):
                engine.load(plain.archive)


def test_loading_a_broken_archive_is_an_error(engine: DockerEngine, tmp_path: Path) -> None:
    broken = tmp_path / "broken.tar"
    broken.write_bytes(b"not a tar" * 1000)
    with pytest.raises(DockerException):
        engine.load(broken)


def test_engine_is_gone_after_use_with_its_processes_mounts_and_cgroups(
    binaries: Path, images: dict[str, TinyImage]
) -> None:
    forwarding = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    with docker_engine(store=ImageStore.CONTAINERD, binaries=binaries) as running:
        (loaded,) = running.load(images["one-member"].archive)
        running.client.containers.run(
            loaded.reference, ["/bin/busybox", "sleep", "1000"], detach=True, network_mode="none"
        )
        started = engine_starts(running.folder)
        # The engine's own process ids, and those of the container that is still running.
        assert len(frozenset(map(process_namespace, started)) - {process_namespace(os.getpid())}) == 2
    assert_gone(running.folder, started)
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == forwarding


def test_engine_is_gone_after_a_failing_test(binaries: Path) -> None:
    seen: list[tuple[Path, Mapping[int, str]]] = []

    def failing_test() -> None:
        with docker_engine(store=ImageStore.OVERLAY2, binaries=binaries) as running:
            seen.append((running.folder, engine_starts(running.folder)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing_test()
    ((folder, started),) = seen
    assert started
    assert_gone(folder, started)


def test_engine_dies_with_an_owner_killed_outright(binaries: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from support.docker_engine import *\n"
        "with docker_engine(store=ImageStore.CONTAINERD, binaries=Path(sys.argv[1]), parent=Path(sys.argv[2])) as it:\n"
        "    print(it.folder, flush=True); time.sleep(60)\n"
    )
    parent = Path(f"/var/tmp/derive-kill-{os.getpid()}")
    parent.mkdir()
    try:
        with subprocess.Popen(
            [sys.executable, "-c", program, str(binaries), str(parent)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("tests", "bench/engine"))},
            stdout=subprocess.PIPE,
            text=True,
        ) as owner:
            assert owner.stdout is not None
            folder = Path(owner.stdout.readline().strip())
            started = engine_starts(folder)
            assert started
            owner.send_signal(signal.SIGKILL)
        deadline = time.monotonic() + 10
        while engine_processes(folder) and time.monotonic() < deadline:
            time.sleep(0.05)
        shutil.rmtree(folder)
        assert_gone(folder, started)
    finally:
        shutil.rmtree(parent)


def test_engine_that_cannot_start_says_why(binaries: Path, tmp_path: Path) -> None:
    false_daemon = tmp_path / "dockerd"
    false_daemon.write_text("#!/bin/sh\necho no engine today >&2\nexit 5\n")
    false_daemon.chmod(0o755)
    with (
        pytest.raises(EngineError, match="no engine today"),
        docker_engine(store=ImageStore.OVERLAY2, binaries=binaries, extra_path=(tmp_path,)),
    ):
        pass


@pytest.mark.usefixtures("binaries")
def test_missing_engine_is_named_as_the_reason(tmp_path: Path) -> None:
    with (
        pytest.raises(EngineUnavailableError, match=r"dockerd.*install-docker"),
        docker_engine(store=ImageStore.OVERLAY2, binaries=tmp_path),
    ):
        pass


def test_skopeo_inspects_and_copies_the_layout(image: TinyImage, tmp_path: Path) -> None:
    if shutil.which("skopeo") is None:
        skip_or_fail("skopeo is missing: install the package skopeo")

    def skopeo(*arguments: str) -> str:
        command = ["skopeo", "--insecure-policy", *arguments]
        result = subprocess.run(command, check=False, capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
        return result.stdout

    # An ordinary user's skopeo cannot read the tar itself: it gives the files the owner that the tar names.
    (tmp_path / "layout").mkdir()
    subprocess.run(["tar", "--no-same-owner", "-xf", image.archive, "-C", tmp_path / "layout"], check=True)
    source = f"oci:{tmp_path}/layout"
    assert json.loads(skopeo("inspect", source))["Digest"] == image.manifest
    skopeo("copy", source, f"dir:{tmp_path}/dir")
    assert digest((tmp_path / "dir/manifest.json").read_bytes()) == image.manifest
    skopeo("copy", source, f"docker-archive:{tmp_path}/docker.tar:tiny:copied")
    with tarfile.open(tmp_path / "docker.tar") as copied:
        # Layers of a Docker archive are plain tars, named by their digest.
        assert f"{digest(tiny_layer())[7:]}.tar" in copied.getnames()


def engine_starts(folder: Path) -> Mapping[int, str]:
    """The processes of an engine and of its containers, each with when it began."""
    inside = {process_namespace(pid) for pid in engine_processes(folder)} - {process_namespace(os.getpid()), ""}
    return {pid: begun(pid) for pid in process_ids() if process_namespace(pid) in inside}


def engine_processes(folder: Path) -> frozenset[int]:
    """Processes that name the engine's folder as an argument, or run in its control groups."""
    return frozenset(pid for pid in process_ids() if folder.name in read(pid, "cmdline") + read(pid, "cgroup"))


def process_ids() -> frozenset[int]:
    return frozenset(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())


def read(pid: int, file: str) -> str:
    try:
        return Path(f"/proc/{pid}/{file}").read_text(errors="replace")
    except OSError:  # it has just ended
        return ""


def process_namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:  # it has just ended
        return ""


def begun(pid: int) -> str:
    """When a process began, in clock ticks: with its id that names it, as ids (and those of namespaces) come again."""
    return read(pid, "stat").rpartition(")")[2].split(" ")[20:21][0] if read(pid, "stat") else ""


def assert_gone(folder: Path, started: Mapping[int, str]) -> None:
    assert not folder.exists()
    assert not engine_processes(folder)
    assert [pid for pid, when in started.items() if when and begun(pid) == when] == []
    assert folder.name not in Path("/proc/self/mountinfo").read_text()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/{folder.name}"))
