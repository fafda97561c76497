# SPDX-License-Identifier: Apache-2.0
"""`derive store export`, `derive store import` and `derive key` as people run them, and files that lie."""

from __future__ import annotations

import base64
import io
import json
import os
import random
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cli import Ran, derive
from support.cli_driver import Driver
from support.require import skip_or_fail
from support.small import SCRIPT, Small, small_project
from support.store_check import check_store, realised

LEVELS = ("run", "rebuild", "audit")
NOWHERE = "http://127.0.0.1:1"
SAMPLES = 6  # kills of one sweep


class Made:
    """The small project, derived, with keys that it trusts, and closure files of it signed by the key ``build``."""

    def __init__(self, small: Small, top: Path) -> None:
        self.small = small
        self.top = top
        self.image = small.here("image").answer
        self.keys = {name: small.here("key", "new", name).answer for name in ("build", "second", "stranger")}
        self.trust("build", "second")
        for level in LEVELS:
            self.export(level, "small", "--with", level, "--key", "build")

    def trust(self, *names: str, threshold: int = 1) -> None:
        """Write whom the project trusts."""
        text = (self.small.root / "pyproject.toml").read_text().partition("\n[tool.derive.trust]")[0]
        lines = [f'{name} = "{self.keys[name]}"' for name in names]
        table = ["", "[tool.derive.trust]", f"threshold = {threshold}", "[tool.derive.trust.keys]", *lines, ""]
        self.small.write("pyproject.toml", text + "\n".join(table))

    def file(self, name: str) -> Path:
        """Return where a closure file lies."""
        return self.top / f"{name}.closure"

    def export(self, name: str, *arguments: str, env: dict[str, str] | None = None) -> Ran:
        """Export what operands name into a file of that name."""
        return self.small.here("store", "export", *arguments, "-o", str(self.file(name)), env=env)

    def other(self, store: Path) -> dict[str, str]:
        """Return variables of another store, which nothing can be fetched into."""
        return {"DERIVE_STORE": str(store), "DERIVE_MIRROR_DEBIAN": NOWHERE}

    def bring(self, store: Path, file: Path, *more: str) -> Ran:
        """Import a file into another store."""
        return self.small.here("store", "import", str(file), *more, env=self.other(store))

    def on(self, store: Path, *arguments: str) -> Ran:
        """Run a command with another store."""
        return self.small.here(*arguments, env=self.other(store))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    top = tmp_path_factory.mktemp("closures")
    with small_project(top) as small:
        yield Made(small, top)


@pytest.fixture
def trusting(made: Made) -> Iterator[Made]:
    """The same, for a test that changes whom the project trusts."""
    yield made
    made.trust("build", "second")
    (made.small.home / "derive" / "revoked-keys.json").unlink(missing_ok=True)


# There and back


@pytest.mark.parametrize("level", LEVELS)
def test_an_image_that_was_imported_derives_offline_with_nothing_built(made: Made, tmp_path: Path, level: str) -> None:
    store = tmp_path / "store"
    assert made.bring(store, made.file(level)).answer == made.image
    check_store(store)
    derived = made.on(store, "image", "--offline")
    assert (derived.answer, derived.err) == (made.image, "")
    plan = json.loads(made.on(store, "plan", "small", "--json").answer)["body"]
    assert {step["action"] for step in plan["steps"]} == {"reuse"}


@pytest.mark.sandbox
def test_an_edited_project_derives_offline_from_a_closure_that_can_rebuild(made: Made, tmp_path: Path) -> None:
    store = tmp_path / "store"
    made.bring(store, made.file("rebuild"))
    made.small.edit("derivations/small/build.sh", "hello is built", "hello is built again")
    made.small.edit("derivations/small/build.sh", 'for $DERIVE_HOST"', 'on $DERIVE_HOST"')
    try:
        derived = made.on(store, "image", "--offline")
        assert derived.answer == made.small.here("image").answer != made.image
    finally:
        made.small.write("derivations/small/build.sh", SCRIPT)
    assert made.small.here("image").answer == made.image


def test_an_image_of_a_closure_that_can_run_is_one_that_others_read(made: Made, tmp_path: Path) -> None:
    made.bring(tmp_path / "store", made.file("run"))
    made.on(tmp_path / "store", "image", "--offline", "--output", str(tmp_path / "there.tar"))
    made.small.here("image", "--output", str(tmp_path / "here.tar"))
    assert (tmp_path / "there.tar").read_bytes() == (tmp_path / "here.tar").read_bytes()


def test_a_derivation_goes_and_comes_as_an_image_does(made: Made, tmp_path: Path) -> None:
    store = tmp_path / "store"
    tree = made.small.here("build", "hello").answer
    made.export("hello", "drv:hello", "--with", "run", "--key", "build")
    assert made.bring(store, made.file("hello")).answer == tree
    path = Path(made.on(store, "build", "hello", "--offline", "--path").answer)
    assert (path / "usr/share/hello/greeting").read_text() == "first\nsecond\nhello, world\nlast\nfor linux/amd64\n"
    check_store(store)


def test_both_platforms_go_in_one_file(made: Made, tmp_path: Path) -> None:
    arm = made.small.here("image", "--platform", "linux/arm64").answer
    made.export("both", "small", "small@linux/arm64", "--key", "build")
    assert sorted(made.bring(tmp_path / "store", made.file("both")).answer.split()) == sorted([made.image, arm])
    assert made.on(tmp_path / "store", "image", "--offline", "--platform", "linux/arm64").answer == arm


# The same bytes


@pytest.mark.parametrize("level", LEVELS)
def test_an_imported_closure_is_exported_byte_for_byte(made: Made, tmp_path: Path, level: str) -> None:
    made.bring(tmp_path / "store", made.file(level))
    again = tmp_path / "again"
    made.on(tmp_path / "store", "store", "export", "small", "-o", str(again), "--with", level, "--key", "build")
    assert again.read_bytes() == made.file(level).read_bytes()


@pytest.mark.parametrize("level", LEVELS)
def test_a_name_a_derivation_and_a_digest_give_one_file(made: Made, tmp_path: Path, level: str) -> None:
    drv = json.loads(made.small.here("show", "small", "--json").answer)["body"]["derivation"].removeprefix("sha256:")
    for operand in (".", "image:small", f"drv:{drv}", drv[:12], made.image):
        made.small.here("store", "export", operand, "-o", str(tmp_path / "x"), "--with", level, "--key", "build")
        assert (tmp_path / "x").read_bytes() == made.file(level).read_bytes(), operand


ELSEWHERE = [
    ({"LC_ALL": "C", "TZ": "Asia/Tokyo"}, ("--jobs", "1"), ("sh", "-c", 'umask 077; exec "$@"', "sh")),
    ({"LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "7"}, ("--jobs", "5"), ()),
]


@pytest.mark.sandbox
@pytest.mark.parametrize(("env", "options", "before"), ELSEWHERE)
def test_what_another_store_derived_in_another_way_gives_the_same_file(
    made: Made, tmp_path: Path, env: dict[str, str], options: tuple[str, ...], before: tuple[str, ...]
) -> None:
    variables = {**made.small.environment, "DERIVE_STORE": str(tmp_path / "a b" / "store"), **env}
    where: dict[str, Any] = {"env": variables, "cwd": made.small.root, "before": before, "shuffled": True}
    assert derive("image", *options, **where).answer == made.image
    for level in ("run", "rebuild"):
        file = tmp_path / level
        arguments = ("small", "-o", str(file), "--with", level, "--key", "build")
        assert derive("store", "export", *arguments, *options, **where).code == 0
        assert file.read_bytes() == made.file(level).read_bytes()


# Trust


def refused(ran: Ran, store: Path, code: int, *texts: str) -> None:
    """Find that a command failed with words, and that the store knows nothing."""
    assert (ran.code, ran.out) == (code, ""), ran.err
    for text in texts:
        assert text in ran.err
    assert realised(store) == 0
    if store.exists():
        check_store(store)


def test_what_nobody_signed_is_taken_only_when_asked_for(made: Made, tmp_path: Path) -> None:
    assert "nobody signed it" in made.export("unsigned", "small").err
    refused(made.bring(tmp_path / "store", made.file("unsigned")), tmp_path / "store", 1, "got       none")
    assert made.bring(tmp_path / "store", made.file("unsigned"), "--unsigned").answer == made.image


def test_a_stranger_s_signature_does_not_count(made: Made, tmp_path: Path) -> None:
    made.export("strange", "small", "--key", "stranger")
    refused(made.bring(tmp_path / "store", made.file("strange")), tmp_path / "store", 1, "does not trust")


def test_as_many_keys_must_sign_as_the_project_says(trusting: Made, tmp_path: Path) -> None:
    made, store = trusting, tmp_path / "store"
    made.trust("build", "second", threshold=2)
    refused(made.bring(store, made.file("run")), store, 1, "expected  signatures of 2 trusted keys", "got       build")
    made.export("twice", "small", "--key", "build", "--key", "build")
    refused(made.bring(store, made.file("twice")), store, 1)
    made.export("mixed", "small", "--key", "build", "--key", "stranger")
    refused(made.bring(store, made.file("mixed")), store, 1)
    made.export("two", "small", "--key", "second", "--key", "build")
    ran = made.bring(store, made.file("two"))
    assert (ran.answer, "signed by build, second" in ran.err) == (made.image, True)


def test_a_revoked_key_neither_counts_nor_signs(trusting: Made, tmp_path: Path) -> None:
    made, store = trusting, tmp_path / "store"
    ran = made.small.here("key", "revoke", "build")
    assert "so that they do not: derive key revoke build --record --why TEXT\n" in ran.err
    assert "leave build in [tool.derive.trust.keys]: " in ran.err
    refused(made.bring(store, made.file("run")), store, 1, "build, which is revoked")
    assert made.export("x", "small", "--key", "build").code == 2
    assert not made.file("x").exists()
    listed = json.loads(made.small.here("key", "list", "--json").answer)["body"]["keys"]
    assert {key["names"][0]: key["revoked"] for key in listed} == {"build": True, "second": False, "stranger": False}


def test_who_revokes_a_key_that_is_needed_is_told_how_many_are_left(trusting: Made) -> None:
    trusting.trust("build", "second", threshold=2)
    ran = trusting.small.here("key", "revoke", "build")
    assert "without it 1 key is left, and 2 signatures needed: add another, or nothing signed is taken" in ran.err


def test_a_key_whose_file_others_could_read_can_be_revoked_and_not_used(trusting: Made) -> None:
    path = trusting.small.home / "derive" / "keys" / "build.key"
    path.chmod(0o644)
    try:
        assert trusting.export("x", "small", "--key", "build").code == 3
        assert trusting.small.here("key", "revoke", "build").code == 0
        assert trusting.small.here("key", "revoke", "build").code == 0
    finally:
        path.chmod(0o600)


def test_a_file_of_any_name_goes_and_comes(made: Made, tmp_path: Path) -> None:
    file = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9 \n.closure")
    variables = {**made.small.environment, "LC_ALL": "C"}
    where: dict[str, Any] = {"env": variables, "cwd": made.small.root}
    assert derive("store", "export", "small", "-o", file, "--with", "run", **where).code == 0
    ran = derive("store", "import", file, "--unsigned", "--json", "--store", str(tmp_path / "store"), **where)
    assert json.loads(ran.answer)["subject"].endswith("/caf%E9 %0A.closure")


def test_a_key_that_the_project_no_longer_names_does_not_count(trusting: Made, tmp_path: Path) -> None:
    trusting.trust("second")
    refused(trusting.bring(tmp_path / "store", trusting.file("run")), tmp_path / "store", 1, "does not trust")


def test_a_project_that_trusts_nobody_says_what_to_write(trusting: Made, tmp_path: Path) -> None:
    trusting.trust()
    ran = trusting.bring(tmp_path / "store", trusting.file("run"))
    refused(ran, tmp_path / "store", 2, "tool.derive.trust.keys", "--unsigned")


def test_outside_any_project_it_is_said_what_else_can_be_done(made: Made, tmp_path: Path) -> None:
    ran = derive("store", "import", str(made.file("run")), env=made.other(tmp_path / "store"), cwd=tmp_path)
    assert (ran.code, "no project here" in ran.err, "say --unsigned" in ran.err) == (2, True, True)


def test_whom_a_project_trusts_decides_no_digest(trusting: Made) -> None:
    before = json.loads(trusting.small.here("show", "--json").answer)["body"]["content"]
    trusting.trust("second", threshold=1)
    assert json.loads(trusting.small.here("show", "--json").answer)["body"]["content"] == before


def test_a_wrong_policy_is_said_with_its_place_by_every_command(trusting: Made, tmp_path: Path) -> None:
    text = (trusting.small.root / "pyproject.toml").read_text()
    trusting.small.write("pyproject.toml", text.replace("threshold = 1", "threshold = 9"))
    for ran in (trusting.bring(tmp_path / "s", trusting.file("run")), trusting.small.here("show")):
        assert ran.code == 2
        assert "pyproject.toml: tool.derive.trust.threshold: 9 keys must sign, and 2 keys can" in ran.err


# Files that are not what they say


def parts(file: Path) -> dict[str, tuple[int, int]]:
    """Return where the contents of each member lie: (offset, size)."""
    with tarfile.open(file) as archive:
        return {one.name: (one.offset_data, one.size) for one in archive}


def altered(file: Path, target: Path, at: int) -> Path:
    """Write a copy with one bit changed."""
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    target.write_bytes(data)
    return target


@pytest.mark.parametrize("unsigned", [False, True])
def test_an_altered_part_is_named_and_nothing_of_it_is_believed(made: Made, tmp_path: Path, unsigned: bool) -> None:
    whole = made.file("rebuild")
    chosen = list(parts(whole).items())
    for name, (offset, size) in chosen[:3] + chosen[-3:] if unsigned else chosen:
        for at in (offset - 500, offset + size - 1):
            file = altered(whole, tmp_path / "x", at)
            store = tmp_path / f"{at}"
            ran = made.bring(store, file, *(["--unsigned"] if unsigned else []))
            hint_or_signature = unsigned and name == "statement.dsse.json"
            assert ran.code in ((0, 1, 3) if hint_or_signature else (1, 3)), f"{name}: {ran.err}"
            assert ran.code == 0 or (ran.out == "" and realised(store) == 0), name
            assert "fault of derive" not in ran.err


def test_a_file_that_another_wrote_over_the_same_manifest_is_refused(made: Made, tmp_path: Path) -> None:
    """The contents are another's, and so are the names beside them; only manifest and signature are the signer's."""
    (tmp_path / "evil").write_bytes(b"evil\n")
    with tarfile.open(made.file("run")) as archive:
        members = [(one, archive.extractfile(one)) for one in archive]
        kept = [(one, file.read()) for one, file in members if file is not None]
    with tarfile.open(tmp_path / "x", "w") as out:
        for info, data in kept[:2]:
            out.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("blobs/sha256/../../../escape")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        out.addfile(link)
        out.add(tmp_path / "evil", "blobs/sha256/../../../escape/evil")
    refused(made.bring(tmp_path / "store", tmp_path / "x"), tmp_path / "store", 3)
    assert not (tmp_path / "escape").exists()


def test_other_files_are_refused_in_words(made: Made, tmp_path: Path) -> None:
    made.small.here("image", "--output", str(tmp_path / "image.tar"))
    for file in (tmp_path / "image.tar", made.small.root / "pyproject.toml", tmp_path / "absent", tmp_path):
        ran = made.bring(tmp_path / "store", file)
        assert (ran.code, ran.out) in ((2, ""), (3, ""))
        assert "fault of derive" not in ran.err


def test_what_is_in_the_store_already_is_not_read_again(made: Made, tmp_path: Path) -> None:
    store = tmp_path / "store"
    whole = made.file("rebuild")
    name, (offset, _) = list(parts(whole).items())[-1]
    assert made.bring(store, altered(whole, tmp_path / "x", offset)).code == 3
    record = json.loads(made.bring(store, whole, "--json").answer)["body"]
    assert record["imported_blobs"] == 1, name
    assert record["signed_by"] == ["build"]
    assert made.on(store, "image", "--offline").answer == made.image


# Killed, and together


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    with Driver() as running:
        yield running


def job(made: Made, store: Path, *argv: str, **options: object) -> dict[str, Any]:
    env = {**made.small.environment, **made.other(store)}
    return {"argv": list(argv), "env": env, "cwd": str(made.small.root), **options}


def test_an_import_killed_at_any_change_to_the_disk_leaves_a_sound_store_and_goes_on(
    made: Made, driver: Driver, tmp_path: Path
) -> None:
    argv = ("store", "import", str(made.file("audit")))
    (whole,) = driver.run(job(made, tmp_path / "whole", *argv, count=True))
    assert whole["out"].strip() == made.image, whole["err"]
    steps = whole["steps"]
    for fatal in sorted({1, *random.Random(1).sample(range(2, steps), SAMPLES), steps}):
        store = tmp_path / str(fatal)
        (killed,) = driver.run(job(made, store, *argv, fatal=fatal))
        assert killed["killed"] in (signal.SIGKILL, None), killed["err"]
        check_store(store)
        (again,) = driver.run(job(made, store, *argv))
        assert (again["code"], again["out"]) == (0, whole["out"]), f"after {fatal} of {steps}: {again['err']}"
        check_store(store)
        assert realised(store) == realised(tmp_path / "whole")


def test_an_export_that_is_killed_leaves_the_file_before(made: Made, driver: Driver, tmp_path: Path) -> None:
    file = tmp_path / "x"
    argv = ("store", "export", "small", "-o", str(file), "--key", "build")
    store = made.small.store
    (whole,) = driver.run(job(made, store, *argv, count=True))
    data = file.read_bytes()
    for fatal in random.Random(2).sample(range(1, whole["steps"]), min(5, whole["steps"] - 1)):
        file.write_bytes(b"before")
        (killed,) = driver.run(job(made, store, *argv, fatal=fatal))
        assert file.read_bytes() in (b"before", data), f"{fatal} of {whole['steps']}: {killed}"


def test_several_imports_at_once_are_one(made: Made, driver: Driver, tmp_path: Path) -> None:
    jobs = [job(made, tmp_path / "store", "store", "import", str(made.file("audit"))) for _ in range(4)]
    for ended in driver.run(*jobs):
        assert (ended["code"], ended["out"].strip()) == (0, made.image), ended["err"]
    check_store(tmp_path / "store")


# Keys


def test_a_new_key_is_printed_as_the_project_writes_it(made: Made, tmp_path: Path) -> None:
    env = {"XDG_DATA_HOME": str(tmp_path)}
    ran = made.small.here("key", "new", "mine", env=env)
    assert ran.answer.startswith("ed25519:")
    assert f'"mine" = "{ran.answer}"' in ran.err
    assert made.small.here("key", "show", "mine", env=env).answer == ran.answer
    assert made.small.here("key", "new", "mine", env=env).code == 2
    assert made.small.here("key", "show", "mine", env=env).answer == ran.answer


def test_keys_are_listed_outside_any_project(made: Made, tmp_path: Path) -> None:
    ran = derive("key", "list", env=made.small.environment, cwd=tmp_path)
    assert [line.split()[0] for line in ran.answer.splitlines()] == ["key", "build", "second", "stranger"]
    assert "trusted here" in ran.answer
    none = derive("key", "list", env={"XDG_DATA_HOME": str(tmp_path)}, cwd=tmp_path)
    assert (none.code, none.out) == (0, "")


def test_no_command_prints_a_private_key(made: Made) -> None:
    pem = (made.small.home / "derive" / "keys" / "build.key").read_text().splitlines()[1]
    for arguments in (("key", "show", "build"), ("key", "list", "--json"), ("show",)):
        ran = made.small.here(*arguments)
        assert pem not in ran.out + ran.err


def test_openssl_verifies_the_signature_of_a_file(made: Made, tmp_path: Path) -> None:
    with tarfile.open(made.file("run")) as archive:
        statement = archive.extractfile("statement.dsse.json")
        assert statement is not None
        envelope = json.load(statement)
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    (tmp_path / "text").write_bytes(b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload))
    (tmp_path / "signature").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    key = str(made.small.home / "derive" / "keys" / "build.key")
    command = ["openssl", "pkeyutl", "-verify", "-inkey", key, "-rawin", "-in", "text", "-sigfile", "signature"]
    if shutil.which("openssl") is None:
        skip_or_fail("openssl is not installed (Debian package openssl)")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Verified Successfully" in done.stdout, done.stderr
