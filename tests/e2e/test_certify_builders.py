# SPDX-License-Identifier: Apache-2.0
"""A release that several builders derive from nothing: this machine, and a worker of a real private engine."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from derive.store.local import LocalStore
from support.buildkit import client
from support.cli import Ran
from support.docker_engine import ImageStore, default_binaries, docker_engine, why_unavailable
from support.promoting import HOSTS, claim, promoted_project, write_site_and_facts
from support.releasing import commit
from support.require import skip_or_fail
from support.small import Small

pytestmark = [pytest.mark.docker, pytest.mark.sandbox]

SETTINGS = """\
[executors.worker]
builder = "one"
platforms = ["linux/amd64"]

[executors.again]
builder = "one"
platforms = ["linux/amd64"]

[executors.absent]
builder = "nowhere"
platforms = ["linux/amd64"]
"""
ANN = {"DERIVE_MACHINE_ID": HOSTS["ann"]}
CERTIFY = ("certify", "m-1")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Return a project with a release, and a user who has an executor on an engine."""
    reason = why_unavailable(default_binaries())
    if reason is not None:
        skip_or_fail(reason)
    folder = tmp_path_factory.mktemp("made")
    with (
        promoted_project(folder) as small,
        client(folder / "docker") as known,
        docker_engine(store=ImageStore.CONTAINERD, binaries=default_binaries()) as engine,
    ):
        known.add("one", engine.url)
        (small.home / "derive").mkdir(exist_ok=True)
        (small.home / "derive/config.toml").write_text(SETTINGS)
        yield small


@pytest.fixture
def small(made: Small, tmp_path: Path) -> Small:
    return copied(made, tmp_path)


def copied(made: Small, place: Path) -> Small:
    """Copy a project, without what its store holds."""
    for folder in (made.root, made.home):
        shutil.copytree(folder, place / folder.name, symlinks=True)
    return Small(place / made.root.name, place / "stores/store", made.server, place / made.home.name)


def release(small: Small) -> None:
    done = small.here("release", "m-1", "--recipe", "model")
    assert done.code == 0, done.err
    commit(small.root, "a release")


def certificates(small: Small) -> list[Path]:
    return sorted((small.root / "records").glob("certificates/m-1/*.json"))


@pytest.fixture(scope="module")
def agreed(made: Small, tmp_path_factory: pytest.TempPathFactory) -> tuple[Small, Ran]:
    """Return a project whose release two builders agree about, signed for by one hand, with what was said."""
    small = copied(made, tmp_path_factory.mktemp("agreed"))
    release(small)
    done = small.here(*CERTIFY, "--builders", "here,worker", "--key", "ann", "--key", "ben", env=ANN)
    assert done.code == 0, done.err
    return small, done


def test_two_builders_that_agree_are_signed_for_by_one_hand_and_count_as_one_builder_on_one_host(
    agreed: tuple[Small, Ran],
) -> None:
    small, done = agreed
    files = certificates(small)
    assert sorted(done.answer.splitlines()) == [str(path.relative_to(small.root)) for path in files]
    assert len(files) == 2
    assert "1 kernel under 2 builders" in done.err
    assert list(small.store.parent.iterdir()) == [small.store], "the builders' own stores are gone"
    counted = json.loads(small.here(*CERTIFY, "--need", "2", "--json").out)["body"]
    assert counted["counted"] == {"linux/amd64": ["ann"], "linux/arm64": ["ann"]}
    assert counted["likeness"] == ["ann and ben: one host"]
    here, worker = counted["certificates"][0]["builders"]
    assert (here["buildkit"], worker["buildkit"] is None) == (None, False)
    for key in ("boot", "kernel", "cpu", "memory_bytes"):
        assert here[key] == worker[key], "the worker is asked for its kernel, and it is this machine's"
    assert here["steps"] > worker["steps"] == 2, "a worker runs what runs programs, for each platform"
    assert small.here(*CERTIFY, "--need", "1").code == 0


def test_what_two_builders_agree_about_counts_as_one_builder_of_a_promotion(
    agreed: tuple[Small, Ran], tmp_path: Path
) -> None:
    small = copied(agreed[0], tmp_path)
    site, facts = write_site_and_facts(tmp_path, int(time.time()))
    tomorrow = time.strftime("%Y-%m-%d", time.gmtime(time.time() + 86_400))
    asked = ("promote", "m-1", "--shape", "four", "--certified", "--site", site, "--facts", *facts)
    waived = ("--waive", "no machine is free", "--expires", tomorrow)
    assert "1 builder of 2 (ann)" in small.here(*asked, *waived).err
    claim(small, "m-1", "ben")
    commit(small.root, "certificates")
    done = small.here(*asked, *waived)
    assert done.code == 0, done.err
    body = json.loads((small.root / done.answer).read_bytes())["body"]
    assert len(body["certificates"]) == 3, "ben's of the host that is ann's is of no harm"


def test_a_step_that_is_not_deterministic_is_found_and_named_and_nothing_is_signed(
    small: Small, tmp_path: Path
) -> None:
    small.edit("derivations/small/build.sh", "echo ", "cat /proc/sys/kernel/random/uuid > $DERIVE_OUT/number\necho ")
    commit(small.root, "a step that is never the same")
    release(small)
    kept = tmp_path / "kept"
    asked = (*CERTIFY, "--builders", "here,worker", "--platform", "linux/amd64", "--key", "ann")
    done = small.here(*asked, "--keep", str(kept), env=ANN)
    assert done.code == 1
    assert "the first step that differs is hello, output out, for linux/amd64" in done.err
    assert "number" in done.err, "what differs inside is shown"
    rows = [line.split()[1] for line in done.out.splitlines() if "of itself" in line]
    assert rows == ["hello"]
    assert "small" in done.out, "what stands on it is told, too"
    assert certificates(small) == []
    for name in ("here", "worker"):
        with LocalStore(kept / name, reading=True) as store, store.database.cursor() as cursor:
            assert cursor.execute("SELECT count(*) FROM realisations WHERE builder = 'script/1'").fetchone() == (1,)
    refused = small.here(*asked, "--keep", str(kept), env=ANN)
    assert (refused.code, "not empty" in refused.err) == (2, True)


def test_all_outputs_are_told_as_a_record_and_without_a_key_nothing_is_signed(small: Small) -> None:
    release(small)
    done = small.here(*CERTIFY, "--builders", "worker,here", "--platform", "linux/arm64", "--json", env=ANN)
    assert done.code == 0, done.err
    body = json.loads(done.out)["body"]
    assert [one["name"] for one in body["builders"]] == ["worker", "here"]
    assert {one["differs"] for one in body["outputs"]} == {False}
    assert {"hello", "small"} <= {one["name"] for one in body["outputs"]}
    assert body["files"] == [] == certificates(small)


def test_a_builder_that_fails_or_is_absent_ends_it_and_nothing_is_signed(small: Small) -> None:
    release(small)
    small.edit("pyproject.toml", 'builders = ["ann", "ben"]', 'builders = ["ben"]')
    done = small.here(*CERTIFY, "--builders", "here,absent", "--key", "ann", env=ANN)
    assert (done.code, "buildx knows no builder 'nowhere'" in done.err) == (2, True), done.err
    assert "derives it from nothing" not in done.err, "it is asked before anything begins"
    assert "is no builder's here: what it signs counts once" in done.err, "and so is whether the key counts"
    assert list(small.store.parent.iterdir()) == [small.store]
    assert certificates(small) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--builders", "here"), "one builder alone compares with nothing"),
        (("--builders", "worker,worker"), "the same builder twice"),
        (("--builders", "worker,again"), "the same builder twice"),
        (("--builders", "here,warker"), "did you mean worker?"),
        (("--builders", "here,worker", "--need", "2"), "--need and --builders do not go together"),
        (("--builders", "here,worker", "--attach"), "--attach and --builders do not go together"),
        (("--key", "ann", "--keep", "somewhere"), "--keep is for --builders"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_why(made: Small, arguments: tuple[str, ...], said: str) -> None:
    refused = made.here(*CERTIFY, *arguments)
    assert (refused.code, said in refused.err) == (2, True), refused.err
