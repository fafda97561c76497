# SPDX-License-Identifier: Apache-2.0
"""Images through BuildKit, on a real engine: the same files and settings as the native image, for people without derive
too; and images upon others, whoever makes them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from derive.buildkit.image_build import build_image
from derive.buildkit.watch import Patience
from derive.canonical import Digest
from derive.errors import DeriveError
from derive.images.shown import shown_files
from derive.store.local import LocalStore
from support.buildkit import Client, client, daemon_of
from support.docker_engine import DockerEngine, ImageStore, default_binaries, docker_engine, why_unavailable
from support.oci_registry import registry
from support.require import skip_or_fail
from support.small import Small, small_project

pytestmark = [pytest.mark.docker, pytest.mark.sandbox, pytest.mark.usefixtures("engine")]

AWKWARD = """
[config.environment]
PATH = "/usr/share/hello:/usr/bin"
QUOTED = "a $HOME ${PATH:-x} \\"c\\" 'd' \\\\ \\\\n <<E é #"
EMPTY = ""
[config.labels]
"org.example.a b" = "it's \\"so\\" $x"
"""


@pytest.fixture(scope="module")
def builders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    reason = why_unavailable(default_binaries())
    if reason is not None:
        skip_or_fail(reason)
    with client(tmp_path_factory.mktemp("client") / "docker") as found:
        yield found


@pytest.fixture(scope="module")
def engine(builders: Client) -> Iterator[DockerEngine]:
    with docker_engine(store=ImageStore.CONTAINERD, binaries=default_binaries()) as running:
        builders.add("one", running.url)
        yield running


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    with small_project(tmp_path_factory.mktemp("image")) as found:
        text = 'user = "1000:1000"\nworking-folder = "/usr/share/hello"\nstop-signal = "SIGINT"\n'
        found.edit("images/small.toml", 'command = ["/usr/share/hello/run"]\n', "")
        found.edit(
            "images/small.toml",
            "[config]\n",
            f'[config]\nentrypoint = ["/usr/share/hello/run", "a \\"b\\" $c", "<<E"]\n{text}{AWKWARD}',
        )
        yield found


def settings(store: LocalStore, manifest: Digest) -> dict[str, Any]:
    """Return what programs of an image run with; variables have no order."""
    document = json.loads(b"".join(store.read_blob(manifest)))
    config = json.loads(b"".join(store.read_blob(Digest.parse(document["config"]["digest"]))))["config"]
    return {**config, "Env": sorted(config["Env"])}


@pytest.mark.parametrize("platform", ["linux/amd64", "linux/arm64"])
def test_a_builder_assembles_the_same_files_and_settings_under_a_digest_of_its_own(small: Small, platform: str) -> None:
    native = small.here("image", "--platform", platform).answer
    ran = small.here("image", "--platform", platform, "--backend", "buildkit=one")
    assert ran.answer != native, ran.err
    with LocalStore(small.store) as store:
        names = (native, ran.answer)
        one, other = (shown_files(store, Digest.parse(name), name="it") for name in names)
        assert one == other
        assert one[b"usr/share/notes"].mode == 0o700
        first, second = (settings(store, Digest.parse(name)) for name in names)
    labels = {"io.derive.backend": "buildkit", "io.derive.native": native}
    assert second == {**first, "Labels": {**first["Labels"], **labels}}


def test_a_builder_that_stands_by_itself_makes_the_same_image(small: Small, builders: Client) -> None:
    with builders.standing("far", "one"):
        far = small.here("image", "--backend", "buildkit=far").answer
    assert far == small.here("image", "--backend", "buildkit=one").answer


ALTERED = {
    "contents": "/usr/share/hello/greeting: file 0644",
    "mode": "/usr/share/hello/greeting: file 0644",
    "added": "/usr/share/hello/added: nothing, and in the other file 0644",
    "removed": "/usr/share/hello/greeting: file 0644",
    "whiteout": "/usr/share/hello/.wh.run: nothing, and in the other file",
    "user": "user: '1000:1000', and in the other '0:0'",
    "platform": "platform: linux/amd64, and in the other linux/riscv64",
}


def kept(store: LocalStore) -> tuple[object, ...]:
    """Return what a store holds on to, and what other tools find in it by name."""
    return store.database.roots(), (store.root / "index.json").read_bytes()


@pytest.mark.parametrize(("what", "said"), ALTERED.items(), ids=ALTERED)
def test_what_is_not_the_native_image_is_named_and_not_kept(
    small: Small, builders: Client, tmp_path: Path, what: str, said: str
) -> None:
    native = small.here("image").answer
    with LocalStore(small.store) as store:
        before = kept(store)
    with builders.altering(what):
        ran = small.here("image", "--backend", "buildkit=one", "--output", str(tmp_path / "out"))
    assert (ran.code, ran.out) == (1, ""), ran.err
    assert "what BuildKit made of small is not the image that derive made" in ran.err
    assert said in ran.err
    assert ran.err.count("and in the other") == 1
    assert not (tmp_path / "out").exists()
    with LocalStore(small.store) as store:
        assert kept(store) == before
    assert small.here("image").answer == native


BIG = """
platforms = ["linux/amd64"]
default-platform = "linux/amd64"
[[layers]]
name = "big"
from = ["big"]
"""
BIG_STEP = """
[big]
builder = "script"
root = "tools"
script = "big.sh"
"""


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalStore, Digest]]:
    """An image that no builder assembles in a moment."""
    with small_project(tmp_path_factory.mktemp("big")) as found:
        found.write("images/big.toml", BIG)
        # Of so many bytes by chance, one time in a hundred some name a path of the sandbox, which is refused.
        found.write("derivations/small/big.sh", 'dd if=/dev/urandom bs=1048576 count=40 | tr / _ > "$DERIVE_OUT/big"\n')
        found.edit("derivations/small.toml", "[notes]", f"{BIG_STEP}\n[notes]")
        native = found.here("image", "big").answer
        with LocalStore(found.store) as store:
            yield store, Digest.parse(native)


STRUCK = {
    "dies": (signal.SIGKILL, "builder doomed-9 did not assemble big"),
    "hangs": (signal.SIGSTOP, "builder doomed-19 does not answer, and did not assemble big"),
}


@pytest.mark.parametrize(("number", "message"), STRUCK.values(), ids=STRUCK)
def test_a_worker_that_is_lost_while_it_assembles_ends_with_what_was_said(
    big: tuple[LocalStore, Digest], builders: Client, number: int, message: str
) -> None:
    store, native = big
    patience = Patience(silence_s=0.5, answer_s=8.0, misses=2)
    with docker_engine(store=ImageStore.CONTAINERD, binaries=default_binaries()) as doomed:
        name = f"doomed-{int(number)}"
        builders.add(name, doomed.url)
        struck: list[str] = []

        def strike(said: str) -> None:
            if not struck:
                os.kill(daemon_of(doomed), number)
            struck.append(said)

        before = kept(store)
        try:
            with pytest.raises(DeriveError) as caught:
                build_image(store, native, "big", {}, builder=name, patience=patience, note=strike)
        finally:
            os.kill(daemon_of(doomed), signal.SIGCONT) if number == signal.SIGSTOP else None
    assert struck
    assert (caught.value.message, caught.value.exit_code) == (message, 3)
    assert caught.value.detail
    assert kept(store) == before
    assert not list(Path(store.staging.new_path()).parent.glob("buildkit-image-*"))


def test_people_without_derive_build_the_same_image_from_what_is_exported(
    small: Small, builders: Client, tmp_path: Path
) -> None:
    folder = tmp_path / "exported"
    native = small.here("export", "dockerfile", "small", "--to", str(folder)).answer
    assert (folder / "README.md").read_text().count(native) == 1
    output = "type=oci,dest=out,tar=false,rewrite-timestamp=true"
    environment = {**builders.environment, "DOCKER_CONTEXT": "one", "OUTPUT": output}
    command = ["sh", "exported/build.sh"]
    ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    (listed,) = json.loads((tmp_path / "out" / "index.json").read_bytes())["manifests"]
    assert listed["digest"] == small.here("image", "small", "--backend", "buildkit=one").answer
    assert (folder / "Dockerfile").read_text() == small.here("export", "dockerfile").out


BOXED = """
platforms = ["linux/amd64"]
default-platform = "linux/amd64"
[[layers]]
name = "tools"
from = ["tools"]
[modes]
"/usr/bin" = { mode = "0711", gid = 7 }
[config]
command = ["/usr/bin/cat", "/usr/share/hello/greeting"]
user = "7:7"
working-folder = "/etc"
environment = { PATH = "/usr/bin", KEPT = "1", MOVED = "1" }
"""
UPON = """
platforms = ["linux/amd64"]
default-platform = "linux/amd64"
base = "boxed"
[[layers]]
name = "hello"
from = ["hello"]
[config]
environment = { MOVED = "2" }
"""


def test_an_image_upon_another_has_its_layers_its_settings_and_runs(
    small: Small, engine: DockerEngine, tmp_path: Path
) -> None:
    small.write("images/boxed.toml", BOXED)
    small.write("images/upon.toml", UPON)
    base = small.here("image", "boxed").answer
    digest = small.here("image", "upon", "--output", str(tmp_path / "upon.tar")).answer
    with LocalStore(small.store) as store:
        below, above = (json.loads(b"".join(store.read_blob(Digest.parse(one))))["layers"] for one in (base, digest))
        said = settings(store, Digest.parse(digest))
    assert above[:-1] == below
    assert said["Env"] == ["KEPT=1", "MOVED=2", "PATH=/usr/bin"]
    assert (said["User"], said["WorkingDir"]) == ("7:7", "/etc")
    (image,) = engine.load(tmp_path / "upon.tar")
    ran = engine.run(image.reference, ["/usr/bin/cat", "/usr/share/hello/greeting"])
    assert ran.stdout.splitlines()[2] == "hello, world"
    assert "pkg:deb/debian/busybox@1.0-1" in small.here("sbom", "upon").out
    small.edit("images/upon.toml", '"boxed"', f'"boxed@{base}"')
    assert small.here("image", "upon").code == 0


WISH = """
kind = "upstreams"
[oci.boxed]
reference = "team/boxed@{digest}"
platforms = ["linux/amd64"]
licence = "MIT"
"""


def test_an_image_upon_one_that_is_locked_is_the_same_as_upon_the_project_s_own(small: Small, tmp_path: Path) -> None:
    small.write("images/boxed.toml", BOXED)
    small.write("images/upon.toml", UPON)
    base, wanted = (small.here("image", name).answer for name in ("boxed", "upon"))
    with registry(tmp_path / "registry") as served:
        env = {"DERIVE_MIRROR_OCI": served.url}
        assert small.here("push", "team/boxed:1", "boxed", env=env).answer == base
        small.write("lock/images.toml", WISH.format(digest=base))
        assert small.here("lock", "images", env=env).code == 0
        small.edit("images/upon.toml", 'base = "boxed"', 'base = { set = "images", oci = "boxed" }')
        locked = small.here("image", "upon", env={**env, "DERIVE_STORE": str(tmp_path / "other")}).answer
        bill = small.here("sbom", "upon", env={"DERIVE_STORE": str(tmp_path / "other")}).out
        small.edit("images/upon.toml", "[config]", '[modes]\n"/usr" = { mode = "0700" }\n[config]')
        refused = small.here("image", "upon", env=env)
    assert "pkg:oci/boxed" in bill
    assert refused.code == 2
    assert 'images/upon.toml: modes."/usr"' in refused.err
    found = []
    for place, digest in ((small.store, wanted), (tmp_path / "other", locked)):
        with LocalStore(place) as store:
            layers = json.loads(b"".join(store.read_blob(Digest.parse(digest))))["layers"]
            said = settings(store, Digest.parse(digest))
            assert said.pop("Labels").keys() == {"io.derive.derivation"}
            found.append((layers, said))
    assert found[0] == found[1]


DERIVED = """
FROM base
USER 0:0
RUN --network=none echo made upon it > /note && cat /etc/hosts > /dev/null
COPY --from=base /usr/bin/busybox /copy
"""


def test_our_image_is_the_base_of_a_dockerfile_named_by_its_digest(
    small: Small, builders: Client, tmp_path: Path
) -> None:
    small.write("images/boxed.toml", BOXED)
    base = small.here("image", "boxed", "--output", str(tmp_path / "base")).answer
    (tmp_path / "Dockerfile").write_text(DERIVED)
    command = ["docker", "buildx", "build", "--provenance=false", f"--build-context=base=oci-layout://base@{base}"]
    command += ["--output=type=oci,dest=out,tar=false", "."]
    environment = {**builders.environment, "DOCKER_CONTEXT": "one"}
    ran = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    blobs = tmp_path / "out" / "blobs" / "sha256"
    (listed,) = json.loads((tmp_path / "out" / "index.json").read_bytes())["manifests"]
    manifest = json.loads((blobs / listed["digest"].partition(":")[2]).read_bytes())
    below = json.loads((tmp_path / "base" / "blobs" / "sha256" / base.partition(":")[2]).read_bytes())["layers"]
    assert [one["digest"] for one in manifest["layers"]][: len(below)] == [one["digest"] for one in below]
    config = json.loads((blobs / manifest["config"]["digest"].partition(":")[2]).read_bytes())["config"]
    assert {"PATH=/usr/bin", "KEPT=1"} <= set(config["Env"])


def test_a_builder_that_does_not_exist_is_said_before_anything_is_assembled(small: Small) -> None:
    ran = small.here("image", "--backend", "buildkit=absent")
    assert ran.code == 2
    assert "--backend: buildx knows no builder 'absent'" in ran.err
    assert ran.out == ""
