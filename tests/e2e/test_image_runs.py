# SPDX-License-Identifier: Apache-2.0
"""The derived image on a real Docker engine, on both of its image stores: it loads, keeps its digest, and answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.cli import CHECKOUT, derive
from support.derived import AMD64, Derived
from support.docker_engine import (
    DockerEngine,
    ImageStore,
    LoadedImage,
    default_binaries,
    docker_engine,
    why_unavailable,
)
from support.require import skip_or_fail

pytestmark = pytest.mark.docker

# The modules of the standard library and of wheels that a probe imports.
MODULES = ("json.decoder", "psutil", "pyroute2", "pyroute2.netlink", "ssl")


@pytest.fixture(scope="module")
def archive(derived: Derived, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The image as one file."""
    file = tmp_path_factory.mktemp("archive") / "probe.tar"
    ran = derive("image", "probe", "--platform", AMD64, "--output", str(file), "--store", str(derived.store))
    assert ran.answer == derived.digests[AMD64]
    return file


@pytest.fixture(params=list(ImageStore), ids=lambda store: store.value, scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[DockerEngine]:
    reason = why_unavailable(default_binaries())
    if reason is not None:
        skip_or_fail(reason)
    with docker_engine(store=request.param, binaries=default_binaries()) as running:
        yield running


@pytest.fixture(scope="module")
def loaded(engine: DockerEngine, archive: Path) -> LoadedImage:
    (image,) = engine.load(archive)
    return image


@dataclass(frozen=True, slots=True)
class Said:
    """What a program in the container said, and how it ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Box:
    """One running container of the image, without network."""

    container: Any

    def run(self, *argv: str, user: str = "") -> Said:
        """Run a program in it, not through a shell."""
        done = self.container.exec_run(list(argv), demux=True, user=user)
        out, err = ((stream or b"").decode() for stream in done.output)
        return Said(done.exit_code, out, err)

    def answer(self, *argv: str, user: str = "") -> str:
        """Return standard output of a program that must succeed."""
        said = self.run(*argv, user=user)
        assert said.code == 0, said
        return said.out.strip()


@pytest.fixture(scope="module")
def box(engine: DockerEngine, loaded: LoadedImage) -> Iterator[Box]:
    container = engine.client.containers.run(
        loaded.reference, ["/usr/bin/sleep", "infinity"], detach=True, network_mode="none"
    )
    yield Box(container)
    container.remove(force=True)


def test_the_image_loads_under_its_name_and_keeps_its_digest(
    engine: DockerEngine, loaded: LoadedImage, derived: Derived
) -> None:
    manifest = json.loads(
        (derived.store / "blobs/sha256" / derived.digests[AMD64].removeprefix("sha256:")).read_bytes()
    )
    kept = {ImageStore.CONTAINERD: derived.digests[AMD64], ImageStore.OVERLAY2: manifest["config"]["digest"]}
    assert loaded.id == kept[engine.store]
    assert loaded.reference == "localhost/probe:latest"


def test_the_config_says_when_and_from_what(engine: DockerEngine, loaded: LoadedImage) -> None:
    seen = engine.client.images.get(loaded.reference).attrs
    assert (seen["Created"], seen["Os"], seen["Architecture"]) == ("1980-01-01T00:00:00Z", "linux", "amd64")
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", seen["Config"]["Labels"]["io.derive.derivation"])
    assert seen["Config"]["Cmd"] == ["/bin/bash"]
    assert len(seen["RootFS"]["Layers"]) == 5


def test_a_fresh_container_answers(engine: DockerEngine, loaded: LoadedImage) -> None:
    result = engine.run(loaded.reference, ["/bin/bash", "-c", 'echo "$PATH"; exit 7'], user="65534")
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert (result.rc, result.stdout, result.stderr) == (7, f"{path}\n", "")


def test_python_loads_the_certificates(box: Box) -> None:
    program = "import ssl; print(ssl.create_default_context().cert_store_stats()['x509_ca'])"
    assert int(box.answer("python3.13", "-c", program)) > 100


def test_python_imports_from_byte_code_that_its_sources_match(box: Box) -> None:
    """The interpreter tells of each file what it made of it: for a checked hash, that it matches the source."""
    said = box.run("python3.13", "-v", "-c", f"import {', '.join(MODULES)}")
    assert said.code == 0
    matched = re.findall(r"^# \S+/__pycache__/(\S+)\.cpython-313\.pyc matches (\S+)$", said.err, re.MULTILINE)
    sources = {source for _, source in matched}
    for module in MODULES:
        ending = "/" + module.replace(".", "/")
        assert any(source.endswith((f"{ending}.py", f"{ending}/__init__.py")) for source in sources), module
    assert len(sources) > 100
    assert "is stale" not in said.err
    # Compiled on the spot were only sources that have no byte code in the image: a link to a file in /etc.
    wrote = re.findall(r"^# wrote '(\S+)'$", said.err, re.MULTILINE)
    assert {Path(path).name for path in wrote} <= {"sitecustomize.cpython-313.pyc"}
    flags = "import importlib.util as u, psutil; print(open(psutil.__cached__, 'rb').read(8)[4:].hex())"
    assert box.answer("python3.13", "-c", flags) == "03000000"


def test_an_edited_source_is_not_run_from_old_byte_code(box: Box) -> None:
    program = """
import pathlib, psutil, subprocess, sys
source = pathlib.Path(psutil.__file__)
text = source.read_bytes()
source.write_bytes(text + b"\\nEDITED = 1\\n")
command = [sys.executable, "-B", "-v", "-c", "import psutil; print(psutil.EDITED)"]
done = subprocess.run(command, capture_output=True, text=True)
source.write_bytes(text)
print(done.stdout.strip(), f"code object from {source}" in done.stderr)
"""
    assert box.answer("python3.13", "-B", "-c", program) == "1 True"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["awk", 'BEGIN { print toupper("awk") }'], "AWK"),
        (["ip", "-V"], "ip utility, iproute2-"),
        (["ethtool", "--version"], "ethtool version "),
        (["iperf3", "--version"], "iperf 3."),
        (["ping", "-V"], "ping from iputils "),
        (["getent", "passwd", "root"], "root:*:0:0:root:/root:/bin/bash"),
        (["id"], "uid=0(root) gid=0(root) groups=0(root)"),
        (["perl", "-e", "print qq(perl\n)"], "perl"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_programs_answer(box: Box, argv: list[str], expected: str) -> None:
    assert box.answer(*argv).startswith(expected)


def test_ibv_devinfo_fails_cleanly_where_no_device_is(box: Box) -> None:
    said = box.run("ibv_devinfo")
    assert said.code in {1, 255}  # and no signal
    assert said.out == ""
    assert "IB devices" in said.err


def test_the_patched_perftest_answers_with_both_options(box: Box) -> None:
    said = box.run("ib_write_bw", "--help")
    assert said.code == 1  # upstream's own
    assert "--json_lines" in said.out
    assert "--gid_subnet=" in said.out
    refused = box.run("ib_write_bw", "--json_lines", "--gid_subnet=not-a-subnet")
    assert refused.code == 1
    assert refused.out == ""
    assert "not-a-subnet" in refused.err


def test_dpkg_finds_every_package_installed_and_unchanged(box: Box) -> None:
    closures = json.loads((CHECKOUT / "lock/trixie.lock.json").read_bytes())["closures"]
    listed = [line.split()[:2] for line in box.answer("dpkg", "-l").splitlines() if line.startswith("ii ")]
    assert (
        len(listed) == len(closures["runtime"]["amd64"]) == int(box.answer("sh", "-c", "dpkg -l | tail -n +6 | wc -l"))
    )
    assert box.answer("dpkg", "--audit") == ""
    assert box.answer("dpkg", "--verify") == ""


def test_modes_are_those_of_the_mode_table_and_nothing_is_set_id(box: Box) -> None:
    shown = box.answer("stat", "--format=%a %u %g %n", "/tmp", "/var/tmp", "/root", "/etc/passwd", "/usr/bin/su")
    assert shown.splitlines() == [
        "1777 0 0 /tmp",
        "1777 0 0 /var/tmp",
        "700 0 0 /root",
        "644 0 0 /etc/passwd",
        "755 0 0 /usr/bin/su",
    ]
    assert box.answer("find", "/", "-xdev", "-perm", "/6000") == ""
    assert box.answer("find", "/", "-xdev", "!", "-user", "root") == ""


def test_an_ordinary_user_writes_in_tmp_and_nowhere_else(box: Box) -> None:
    assert box.answer("touch", "/tmp/mine", user="65534") == ""
    assert box.run("touch", "/usr/mine", user="65534").code == 1
    found = box.run("find", "/", "-xdev", "-type", "d", "-writable", user="65534")
    assert set(found.out.splitlines()) == {"/tmp", "/var/lock", "/var/tmp"}
