# SPDX-License-Identifier: Apache-2.0
"""Programs that know nothing of derive say the same of its outputs: nix-hash, skopeo, gzip, GNU tar, dpkg-deb."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from derive.canonical import EPOCH
from support.cli import CHECKOUT, derive
from support.derived import AMD64, ARM64, Derived
from support.require import skip_or_fail

LAYERS = ("userland", "bytecode", "wheels", "perftest", "guard")


def tool(name: str, package: str) -> str:
    """Return a program's path; where it is not installed there is no witness."""
    return shutil.which(name) or skip_or_fail(f"{name} is missing: install the package {package}")


def said(*command: str | Path) -> str:
    """Run a witness, and return what it says."""
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode()


@pytest.mark.parametrize(("name", "platform"), [("perftest", AMD64), ("perftest", ARM64), ("userland", AMD64)])
def test_a_tree_digest_is_what_nix_hash_says_of_the_folder(derived: Derived, name: str, platform: str) -> None:
    nix_hash = tool("nix-hash", "nix-bin")
    asked = ("build", name, "--platform", platform, "--store", str(derived.store))
    folder = derive(*asked, "--path").answer
    assert f"sha256:{said(nix_hash, '--type', 'sha256', folder).strip()}" == derive(*asked).answer


@dataclass(frozen=True, slots=True)
class Layout:
    """An exported image: the folder, its manifest, and each layer's blob by the layer's name."""

    folder: Path
    digest: str
    manifest: dict[str, list[dict[str, str]]]
    layers: dict[str, Path]

    def blob(self, digest: str) -> Path:
        return self.folder / "blobs/sha256" / digest.removeprefix("sha256:")


@pytest.fixture(scope="module", params=[AMD64, ARM64])
def layout(request: pytest.FixtureRequest, derived: Derived, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """The image of each platform, exported."""
    folder = tmp_path_factory.mktemp("exported") / "layout"
    ran = derive(
        *("image", "probe", "--platform", request.param, "--output", str(folder), "--store", str(derived.store))
    )
    assert ran.answer == derived.digests[request.param]
    blobs = folder / "blobs/sha256"
    manifest = json.loads((blobs / ran.answer.removeprefix("sha256:")).read_bytes())
    layers = [blobs / layer["digest"].removeprefix("sha256:") for layer in manifest["layers"]]
    return Layout(folder, ran.answer, manifest, dict(zip(LAYERS, layers, strict=True)))


def test_skopeo_inspects_the_layout_under_our_digest(layout: Layout) -> None:
    skopeo = tool("skopeo", "skopeo")
    seen = json.loads(said(skopeo, "inspect", f"oci:{layout.folder}:probe"))
    assert seen["Digest"] == layout.digest
    assert seen["Layers"] == [layer["digest"] for layer in layout.manifest["layers"]]
    assert set(seen["Labels"]) == {"io.derive.capabilities", "io.derive.derivation"}
    assert seen["Labels"]["io.derive.capabilities"] == "memory-guard rdma"
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", seen["Labels"]["io.derive.derivation"])


def test_skopeo_copies_every_byte(layout: Layout, tmp_path: Path) -> None:
    skopeo = tool("skopeo", "skopeo")
    said(skopeo, "--insecure-policy", "copy", "--quiet", f"oci:{layout.folder}:probe", f"dir:{tmp_path}/copy")
    copied = {path.name: sha256(path) for path in (tmp_path / "copy").iterdir() if path.name != "version"}
    named = {p.name: f"sha256:{p.name}" for p in layout.blob(layout.digest).parent.iterdir()}
    assert copied.pop("manifest.json") == named.pop(layout.digest.removeprefix("sha256:")) == layout.digest
    assert copied == named


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def test_each_diff_id_is_the_digest_of_what_gzip_unpacks(layout: Layout) -> None:
    config = json.loads(layout.blob(layout.manifest["config"]["digest"]).read_bytes())  # type: ignore[call-overload]
    found = []
    for layer in layout.layers.values():
        with subprocess.Popen(["gzip", "-dc", layer], stdout=subprocess.PIPE) as gzip:
            assert gzip.stdout is not None
            hasher = hashlib.sha256()
            while data := gzip.stdout.read(1 << 20):
                hasher.update(data)
            found.append(f"sha256:{hasher.hexdigest()}")
        assert gzip.returncode == 0
    assert found == config["rootfs"]["diff_ids"]


@pytest.fixture(scope="module")
def headers(layout: Layout) -> dict[str, list[tarfile.TarInfo]]:
    """The tar headers of every layer, in order."""
    found = {}
    for name, path in layout.layers.items():
        with tarfile.open(path, "r:gz") as tar:
            found[name] = tar.getmembers()
    return found


def test_no_header_has_an_owner_a_time_or_a_bit_that_the_mode_table_did_not_give(
    headers: dict[str, list[tarfile.TarInfo]],
) -> None:
    modes: Counter[tuple[bool, int]] = Counter()
    for member in (member for members in headers.values() for member in members):
        assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (0, 0, "", "", EPOCH), member.name
        assert not member.mode & 0o6000, member.name
        assert member.isdir() or member.isreg() or member.issym(), member.name
        if not member.issym():
            modes[(member.isdir(), member.mode)] += 1
    assert set(modes) == {(True, 0o755), (True, 0o700), (True, 0o1777), (False, 0o644), (False, 0o755)}
    # /etc/ssl/private, /root and /var/cache/ldconfig; /tmp, /var/lock and /var/tmp.
    assert (modes[True, 0o700], modes[True, 0o1777]) == (3, 3)


def test_a_layer_holds_its_own_paths_and_their_parents_alone(
    derived: Derived, layout: Layout, headers: dict[str, list[tarfile.TarInfo]]
) -> None:
    platform = AMD64 if layout.digest == derived.digests[AMD64] else ARM64
    own = {
        "perftest": {"usr/bin", "usr/share", "usr/include"},
        "wheels": {"usr/local"},
        "bytecode": {"usr/lib/python3.13"},
    }
    for name, tops in own.items():
        paths = [member.name for member in headers[name]]
        assert len(set(paths)) == len(paths)
        outside = [p for p in paths if not any(p == top or p.startswith(f"{top}/") for top in tops)]
        assert all(any(top.startswith(f"{path}/") for top in tops) for path in outside), outside
    folder = Path(derive("build", "perftest", "--platform", platform, "--path", "--store", str(derived.store)).answer)
    expected = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert {member.name for member in headers["perftest"]} == expected
    compiled = [member.name for member in headers["bytecode"] if not member.isdir()]
    assert all(re.search(r"/__pycache__/[^/]+\.cpython-313\.pyc$", path) for path in compiled)


def test_gnu_tar_reads_each_layer_as_it_was_written(layout: Layout, headers: dict[str, list[tarfile.TarInfo]]) -> None:
    for name, path in layout.layers.items():
        listed = said("tar", "--list", "--gzip", "--quoting-style=literal", "--warning=all", "--file", path)
        assert [line.rstrip("/") for line in listed.splitlines()] == [member.name for member in headers[name]]


def test_the_byte_code_is_checked_by_hash_against_the_source_that_is_there(
    headers: dict[str, list[tarfile.TarInfo]], layout: Layout
) -> None:
    assert headers
    with tarfile.open(layout.layers["bytecode"], "r:gz") as tar:
        member = next(m for m in tar if m.name.endswith("/json/__pycache__/decoder.cpython-313.pyc"))
        data = tar.extractfile(member)
        assert data is not None
        # PEP 552: the flags say that a hash follows, and that it is to be compared with the source's.
        assert int.from_bytes(data.read(8)[4:], "little") == 0b11


@pytest.fixture(scope="module")
def told(derived: Derived) -> list[str]:
    """What the log of the userland says."""
    return derive("log", "userland", "--platform", AMD64, "--store", str(derived.store)).answer.splitlines()


@pytest.fixture(scope="module")
def packages(derived: Derived) -> list[tuple[str, Path]]:
    """(name, .deb) of the closure that the userland is made of."""
    lock = json.loads((CHECKOUT / "lock/trixie.lock.json").read_bytes())
    wanted = set(lock["closures"]["runtime"]["amd64"])
    entries = [entry for entry in lock["entries"] if entry.get("file") in wanted]
    return [(entry["name"], derived.store / "blobs/sha256" / entry["sha256"]) for entry in entries]


def test_the_log_lists_every_set_id_bit_that_dpkg_would_have_given(
    told: list[str], packages: list[tuple[str, Path]]
) -> None:
    dpkg_deb = tool("dpkg-deb", "dpkg")
    bits = set()
    for name, deb in packages:
        for line in said(dpkg_deb, "--contents", deb).splitlines():
            mode, _, _, _, _, path = line.split(maxsplit=5)
            kinds = [kind for at, kind in ((3, "setuid"), (6, "setgid")) if mode[at] in "sS"]
            if kinds:
                bits.add((name, " and ".join(kinds), path.removeprefix(".")))
    found = {
        (match[1], " and ".join(re.findall("set[ug]id", match[2])), match[3])
        for match in (re.match(r"([^:]+):\S+: dropped ([^:]*set[ug]id[^:]*): (.*)$", line) for line in told)
        if match
    }
    assert len(bits) > 8
    assert found == bits


def test_the_log_lists_every_script_that_dpkg_would_have_run(told: list[str], packages: list[tuple[str, Path]]) -> None:
    dpkg_deb = tool("dpkg-deb", "dpkg")
    scripts = set()
    for name, deb in packages:
        members = re.findall(r"^ +\d+ bytes, +\d+ lines +\*? *(\w+) ", said(dpkg_deb, "--info", deb), re.MULTILINE)
        scripts |= {
            (name, member) for member in members if member in {"preinst", "postinst", "prerm", "postrm", "config"}
        }
    lines = [re.match(r"not run: ([^:]+):\S+ (\w+)(: (?:covered|waived): \S.*)?$", line) for line in told]
    listed = {(match[1], match[2]): match[3] for match in lines if match}
    assert len(scripts) > 60
    assert scripts <= listed.keys()
    # The rest is no script: what debconf and dpkg would have acted on.
    assert {member for _, member in listed.keys() - scripts} <= {"templates", "triggers"}
    # What installs has its excuse; what an upgrade or a removal would have run needs none.
    assert all(excuse for (_, script), excuse in listed.items() if script in {"preinst", "postinst"})
