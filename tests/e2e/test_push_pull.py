# SPDX-License-Identifier: Apache-2.0
"""``derive push`` and ``derive pull`` as a person runs them: answers, refusals, killed and run again, two at once."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from derive.canonical import Digest
from derive.store.local import LocalStore
from support.cli import command, environment
from support.faults import FaultProxy
from support.oci_registry import Image, Registry, image, registry
from support.pushing import keep, noise
from support.require import skip_or_fail
from support.small import Small, run_here, small_project

IMAGE = image(noise(3_000_000, 1), noise(100_000, 2), packed=False)
LAYER, SMALL = list(IMAGE.blobs)[1:]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def proxy(real: Registry) -> Iterator[FaultProxy]:
    with FaultProxy(real.host) as running:
        yield running


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    with small_project(tmp_path_factory.mktemp("built")) as small:
        yield small


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Return a store that holds an image that no project knows."""
    with LocalStore(tmp_path / "store") as store:
        keep(store, IMAGE)
    return tmp_path / "store"


def begun(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command(*arguments), env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def held(store: Path, made: Image) -> set[str]:
    with LocalStore(store) as opened:
        wanted = {**made.blobs, made.digest: made.manifest}
        return {digest for digest in wanted if opened.has_blob(Digest.parse(digest))}


def test_the_default_image_goes_into_a_registry_and_comes_back(small: Small, real: Registry, tmp_path: Path) -> None:
    url = ["--registry", real.url]
    early = small.here("push", "team/small:1", *url)
    assert (early.code, early.out) == (2, "")
    assert "error: the image small is not derived yet\n  hint: run: derive image small\n" in early.err
    digest = small.here("image").answer
    planned = small.here("push", "team/small:1", *url, "--dry-run")
    assert [line.split()[0] for line in planned.answer.splitlines()] == ["upload"] * 4
    pushed = small.here("push", "team/small:1", *url, "--json")
    body = json.loads(pushed.answer)["body"]
    assert (body["digest"], body["uploaded_blobs"], body["verified"]) == (digest, 3, "sizes")
    again = small.here("push", "team/small", "small@linux/amd64", *url, "--verify", "full")
    assert again.answer == digest
    assert again.err.startswith("pushed 0 blobs (0 B); 3 there already")
    other = ["--store", str(tmp_path / "other")]
    assert small.here("pull", f"team/small@{digest}", *url, *other).answer == digest
    layout = tmp_path / "layout"
    assert small.here("pull", f"team/small@{digest}", "--offline", *other, "--output", str(layout)).answer == digest
    blobs = {path.name: path.read_bytes() for path in (layout / "blobs" / "sha256").iterdir()}
    for name, data in blobs.items():
        assert (small.store / "blobs" / "sha256" / name).read_bytes() == data
    assert len(blobs) == 4


def test_where_a_pulled_image_cannot_be_written_is_said_before_anything_is_asked(
    proxy: FaultProxy, tmp_path: Path
) -> None:
    here = ["--registry", proxy.url, "--store", str(tmp_path / "store")]
    refused = run_here("pull", "team/x:1", *here, "--output", str(tmp_path / "none" / "x.tar"))
    assert (refused.code, refused.out, proxy.seen) == (2, "", [])
    assert f"the folder {tmp_path / 'none'} does not exist" in refused.err


def test_a_tag_is_not_looked_up_offline_and_the_digest_that_it_was_pulled_by_is_named(store: Path) -> None:
    with LocalStore(store) as opened:
        opened.database.set_root("pulled", "team/x:1 linux/amd64", Digest.parse(IMAGE.digest))
    refused = run_here("pull", "team/x:1", "--offline", "--store", str(store))
    assert (refused.code, refused.out) == (3, "")
    assert f"pulled    {IMAGE.digest} (linux/amd64)" in refused.err
    assert "hint: name the digest that is meant: derive pull team/x@sha256:... --offline" in refused.err


def test_other_tools_read_what_was_pushed_and_what_was_pulled(store: Path, real: Registry, tmp_path: Path) -> None:
    if shutil.which("skopeo") is None:
        skip_or_fail("skopeo is not installed")
    pushed = run_here("push", "team/skopeo:1", IMAGE.digest, "--registry", real.url, "--store", str(store))
    assert pushed.answer == IMAGE.digest
    pulled = tmp_path / "pulled"
    assert run_here("pull", "team/skopeo:1", "--registry", real.url, "--store", str(pulled)).answer == IMAGE.digest
    for source in (f"docker://{real.host}/team/skopeo:1", f"oci:{pulled}:team/skopeo:1-amd64"):
        read = ["skopeo", "inspect", "--raw", "--tls-verify=false", source]
        assert subprocess.run(read, check=True, stdout=subprocess.PIPE).stdout == IMAGE.manifest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("push", "host.example/team/x:1"), "a reference names no host"),
        (("push", f"team/x@{IMAGE.digest}"), "names no digest"),
        (("push", "Team/x:1"), "not an image reference"),
        (("push", "team/x:1", "drv:x"), "drv:x is no image"),
        (("push", "team/x:1", "0123456789ab"), "nothing in the store is sha256:0123456789ab"),
        (("push", "team/x:1", LAYER), "is no image in the store"),
        (("push", "team/x:1", "--registry", "ftp://x"), "--registry: not an http or https URL"),
        (("push", "team/x:1", "--mount-from", "a:b"), "--mount-from: not a repository alone"),
        (("pull", "team/x"), "a reference without a tag or a digest"),
    ],
)
def test_wrong_input_is_code_2(store: Path, arguments: tuple[str, ...], said: str) -> None:
    url = () if "--registry" in arguments else ("--registry", "http://127.0.0.1:9")
    ran = run_here(*arguments, *url, "--store", str(store))
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_a_registry_that_is_not_there_or_not_named_is_code_3(store: Path, tmp_path: Path) -> None:
    own = ["--store", str(store)]
    env = {"DERIVE_MIRROR_OCI": "", "XDG_CONFIG_HOME": str(tmp_path)}
    for arguments in (["push", "team/x:1", IMAGE.digest], ["pull", "team/x:1"]):
        ran = run_here(*arguments, *own, env=env)
        assert (ran.code, ran.out) == (3, "")
        assert "no registry is configured" in ran.err
        assert "--registry URL" in ran.err


def test_what_a_registry_does_not_have_is_code_3(store: Path, real: Registry) -> None:
    ran = run_here("pull", "team/nothing:1", "--store", str(store), env={"DERIVE_MIRROR_OCI": real.url})
    assert (ran.code, ran.out) == (3, "")
    assert "no registry has team/nothing:1" in ran.err


def test_an_index_of_several_images_wants_a_platform_or_a_project(real: Registry, tmp_path: Path, small: Small) -> None:
    arm64 = image(b"arm64", platform="linux/arm64")
    real.push("team/index", "1", IMAGE, arm64)
    own = ["--store", str(tmp_path / "store"), "--registry", real.url]
    ran = run_here("pull", "team/index:1", *own, "--project", str(tmp_path))
    assert (ran.code, ran.out) == (2, "")
    assert "it has    linux/amd64, linux/arm64" in ran.err
    assert small.here("pull", "team/index:1", *own).answer == IMAGE.digest
    assert small.here("pull", "team/index:1", *own, "--platform", "linux/arm64").answer == arm64.digest


def test_a_push_that_was_killed_sends_only_what_is_missing(store: Path, proxy: FaultProxy) -> None:
    fault = proxy.add("PUT .*uploads.*" + LAYER.removeprefix("sha256:"), "gate", 2_000_000)
    arguments = ["push", "team/killed:1", IMAGE.digest, "--registry", proxy.url, "--store", str(store)]
    process = begun(*arguments)
    assert fault.reached.wait(20)
    wait_for(lambda: sum(one.status == 201 for one in proxy.seen) == 2)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    fault.gate.set()
    proxy.forget()
    ran = run_here(*arguments)
    assert ran.answer == IMAGE.digest
    assert proxy.sent("PUT .*uploads") == len(IMAGE.blobs[LAYER])


def test_a_pull_that_was_killed_fetches_only_what_is_missing(real: Registry, proxy: FaultProxy, tmp_path: Path) -> None:
    real.push("team/pull", "1", IMAGE, indexed=False)
    fault = proxy.add(f"GET .*blobs/{LAYER}", "gate-answer", 2_000_000)
    store = tmp_path / "own"
    arguments = ["pull", "team/pull:1", "--registry", proxy.url, "--store", str(store)]
    process = begun(*arguments)
    partial = store / "partial" / LAYER.removeprefix("sha256:")
    wait_for(lambda: partial.exists() and partial.stat().st_size > 1_500_000)
    wait_for(lambda: SMALL in held(store, IMAGE))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    fault.gate.set()
    proxy.forget()
    assert run_here(*arguments).answer == IMAGE.digest
    assert proxy.got(LAYER) < 1_600_000
    assert proxy.count(SMALL) == 0
    assert len(held(store, IMAGE)) == 4


def test_two_pushes_and_two_pulls_at_once_end_well(store: Path, real: Registry, tmp_path: Path) -> None:
    where = ["--registry", real.url, "--store"]
    pushes = [begun("push", "team/both:1", IMAGE.digest, *where, str(store)) for _ in range(2)]
    assert [process.communicate()[0].decode().strip() for process in pushes] == [IMAGE.digest] * 2
    pulls = [begun("pull", "team/both:1", *where, str(tmp_path / "own")) for _ in range(2)]
    assert [process.communicate()[0].decode().strip() for process in pulls] == [IMAGE.digest] * 2
    assert len(held(tmp_path / "own", IMAGE)) == 4


def test_ctrl_c_ends_a_push_with_130(store: Path, proxy: FaultProxy) -> None:
    fault = proxy.add("PUT .*uploads.*" + LAYER.removeprefix("sha256:"), "hang")
    process = begun("push", "team/stopped:1", IMAGE.digest, "--registry", proxy.url, "--store", str(store))
    assert fault.reached.wait(20)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    proxy.stopping.set()
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, b"")
    assert b"interrupted" in err


def test_what_attests_an_image_goes_with_it_and_is_checked_where_it_was_pulled(
    small: Small, real: Registry, tmp_path: Path
) -> None:
    digest = small.here("image").answer
    key = small.here("key", "new", "build").answer
    attached = small.here("attest", "--key", "build").answer
    assert small.here("image").answer == digest
    url, other = ["--registry", real.url], ["--store", str(tmp_path / "other")]
    assert small.here("push", "team/attested:1", *url).answer == digest
    pulled = json.loads(small.here("pull", "team/attested:1", *url, *other, "--json").answer)["body"]
    assert pulled["digest"] == digest
    assert all(one in attached for one in pulled["referrers"])
    assert len(pulled["referrers"]) == 2
    trusted = f'\n[tool.derive.trust]\nthreshold = 1\n\n[tool.derive.trust.keys]\nbuild = "{key}"\n'
    small.write("pyproject.toml", (small.root / "pyproject.toml").read_text() + trusted)
    checked = small.here("attest", digest, "--check", *other)
    assert checked.code == 0, checked.err
