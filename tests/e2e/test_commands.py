# SPDX-License-Identifier: Apache-2.0
"""Every command as a person meets it: help, answers, records, completion, odd surroundings, and never a traceback."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from derive.canonical import Digest, decode, sha256, unescape
from derive.cli.main import COMMANDS, EXIT_CODES
from derive.store.local import LocalStore
from support.cli import Ran, command, environment
from support.require import skip_or_fail
from support.small import CONTENT, Small, artifacts, run_here, small_project

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    """Yield the small project, derived; no test here changes it."""
    with small_project(tmp_path_factory.mktemp("built")) as small:
        assert small.here("image").code == 0
        yield small


def shell(small: Small, text: str, env: Mapping[str, str | None] | None = None) -> Ran:
    """Run a line of bash in the project; ``derive`` in it is the command. A variable that is None is unset."""
    variables = environment({**small.environment, "DERIVE": " ".join(command())})
    for name, value in (env or {}).items():
        variables.pop(name, None)
        if value is not None:
            variables[name] = value
    line = f'derive() {{ $DERIVE "$@"; }}; set -o pipefail; {text}'
    done = subprocess.run(["bash", "-c", line], env=variables, cwd=small.root, capture_output=True, check=False)
    return Ran(done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr))


def record_of(out: str | bytes) -> Any:
    """Return the one record that a command answered with."""
    document = decode(out.encode() if isinstance(out, str) else out)
    assert isinstance(document, dict)
    assert set(document) == {"derive", "kind", "subject", "previous", "body"}
    assert (document["derive"], document["previous"]) == ("record/1", None)
    return document


# Help


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_says_what_it_does_with_an_example(name: str) -> None:
    ran = run_here(name, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert f"usage: derive {name} " in ran.out
    example = ran.out.partition("\nexamples:\n")[2]
    assert re.search(rf"^  derive {name}\b", example, re.MULTILINE)


def test_the_help_lists_every_command_and_the_exit_codes() -> None:
    ran = run_here("--help")
    assert (ran.code, ran.err) == (0, "")
    assert EXIT_CODES in ran.out
    assert all(re.search(rf"^    {name}  ", ran.out, re.MULTILINE) for name in COMMANDS)


def test_without_a_command_the_help_goes_to_standard_error_and_the_code_is_2() -> None:
    ran = run_here()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("usage: derive ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing",),
        ("image", "--nothing"),
        ("image", "a", "b"),
        ("image", "--jobs", "0"),
        ("image", "--jobs", "x"),
        ("image", "--platform", "linux/s390x"),
        ("image", "--store"),
        ("image", "--jo", "1"),
        ("lock", "--check", "--outdated"),
        ("completion", "fish"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_code_2_with_the_usage(arguments: tuple[str, ...]) -> None:
    ran = run_here(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("usage: derive")
    assert re.search(r"^derive.*: error: ", ran.err, re.MULTILINE)


def test_the_version_is_printed() -> None:
    assert re.fullmatch(r"derive \d+\.\d+\.\d+\n", run_here("--version").answer + "\n")
    assert run_here("-V").out == run_here("--version").out


# Answers


def test_image_answers_with_the_digest_alone(built: Small) -> None:
    assert DIGEST.fullmatch(built.here("image").answer)
    assert built.here("image", "small", "--platform", "linux/amd64").out == built.here("image").out


def test_image_writes_an_archive_and_a_folder_that_hold_the_image(built: Small, tmp_path: Path) -> None:
    digest = built.here("image", "--output", str(tmp_path / "small.tar")).answer
    assert built.here("image", "--output", str(tmp_path / "small")).answer == digest
    name = f"blobs/sha256/{digest.removeprefix('sha256:')}"
    with tarfile.open(tmp_path / "small.tar") as archive:
        assert name in archive.getnames()
    assert (tmp_path / "small" / name).exists()


def test_build_answers_with_the_digest_or_the_place_of_the_output(built: Small) -> None:
    digest = built.here("build", "hello").answer
    assert DIGEST.fullmatch(digest)
    folder = Path(built.here("build", "hello", "--path").answer)
    assert folder.name == digest.removeprefix("sha256:")
    assert (folder / "usr/share/hello/greeting").read_text() == "first\nsecond\nhello, world\nlast\nfor linux/amd64\n"
    assert not os.access(folder, os.W_OK) or os.geteuid() == 0


def test_build_of_an_image_by_name_is_its_manifest(built: Small) -> None:
    assert built.here("build", "small").out == built.here("image").out


def test_plan_lists_what_would_happen_with_reasons_and_disk(built: Small) -> None:
    done = built.here("plan").answer
    assert "1 to reuse, 0 to fetch, 0 to build" in done
    cold = built.here("plan", "--store", str(built.root / "elsewhere"), "--all").answer
    assert re.search(r"^fetch +fetch-deb +\? +notes_1.0-1_amd64.deb +not fetched yet$", cold, re.MULTILINE)
    assert re.search(r"^build +script +\? +hello +its input .* (is|are) not built yet$", cold, re.MULTILINE)
    assert re.search(r"^to fetch \S+ MB, disk needed up to \S+ MB, disk free \S+ GB$", cold, re.MULTILINE)
    assert not (built.root / "elsewhere").exists()


def test_show_lists_the_project(built: Small) -> None:
    answer = built.here("show").answer
    for line in (
        r"image +small +images/small.toml +linux/amd64 linux/arm64",
        r"derivation +hello +derivations/small.toml +script",
        r"lock set +base +lock/base.lock.json +4 entries",
        r"series +hello +patches/hello +1 patches",
    ):
        assert re.search(f"^{line}$", answer, re.MULTILINE)


def test_show_of_a_name_of_an_id_of_a_tree_and_of_a_blob(built: Small) -> None:
    by_name = built.here("show", "hello").answer
    key = re.search(r"^derivation +(sha256:[0-9a-f]{64})$", by_name, re.MULTILINE)
    assert key
    for operand in ("drv:hello", key[1], key[1][7:19], f"drv:{key[1][7:19]}"):
        assert key[1] in built.here("show", operand).answer
    tree = built.here("build", "hello").answer
    for operand in (tree, f"tree:{tree}", f"tree:{tree[7:19]}"):
        assert re.search(
            r"^program +40 +usr/share/hello/run +[0-9a-f]{12}$", built.here("show", operand).answer, re.MULTILINE
        )
    image = built.here("image").answer
    assert f"/blobs/sha256/{image[7:]}" in built.here("show", image).answer
    assert built.here("show", "image:small").out == built.here("show", "small").out


@pytest.mark.parametrize(
    "operand",
    ["", "nothing", "tree:", "tree:************", "tree:../../../../etc", "f" * 64, "drv:", "blob:x", "\udce9"],
)
def test_show_of_what_is_not_there_says_so(built: Small, operand: str) -> None:
    ran = built.here("show", operand)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 2


def test_log_prints_what_a_build_said_by_name_and_by_id(built: Small) -> None:
    assert built.here("log", "hello").out == "hello is built\n"
    key = record_of(built.here("log", "hello", "--json").out)["body"]["derivation"]
    assert built.here("log", key[7:19]).out == "hello is built\n"
    for name in ("nothing", "", "\udce9", "f" * 64):
        assert built.here("log", name).code == 2


def test_lock_check_says_whether_locks_fit_their_wishes(built: Small) -> None:
    assert built.here("lock", "--check").answer == "the set fits its wish"


def test_a_lock_that_does_not_fit_is_the_answer_no_and_a_wish_that_is_wrong_is_wrong_input(tmp_path: Path) -> None:
    with small_project(tmp_path) as small:
        small.edit("lock/base.toml", '["notes"]', '["notes", "more"]')
        ran = small.here("lock", "--check")
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith("error: lock/base.toml: changed since it was locked\n")
        record = record_of(small.here("lock", "--check", "--json").out)
        assert record["body"]["problems"] == [{"where": "lock/base.toml", "message": "changed since it was locked"}]
        small.edit("lock/base.toml", "suite =", "sweet =")
        assert small.here("lock", "--check").code == 2
        assert small.server.requests == []


def test_init_starts_a_project_that_can_be_shown(tmp_path: Path) -> None:
    ran = run_here("init", str(tmp_path / "mine"))
    assert ran.code == 0
    shown = run_here("show", "--project", str(tmp_path / "mine"), "--store", str(tmp_path / "store"))
    assert shown.code == 2
    assert "lock/trixie.lock.json: missing: this set has no pins\n  hint: run: derive lock trixie\n" in shown.err


# Records


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("image", ("image",)),
        ("image", ("image", "--check")),
        ("build", ("build", "hello")),
        ("plan", ("plan", "--all")),
        ("show-project", ("show",)),
        ("show-derivation", ("show", "small")),
        ("log", ("log", "hello")),
        ("lock", ("lock",)),
        ("lock-check", ("lock", "--check")),
        ("completion", ("completion", "bash")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_with_json_the_answer_is_one_record(built: Small, kind: str, arguments: tuple[str, ...]) -> None:
    ran = built.here(*arguments, "--json")
    assert ran.code == 0, ran.err
    assert record_of(ran.out)["kind"] == kind


def test_the_records_of_a_tree_and_a_blob_hold_numbers_and_whole_digests(built: Small) -> None:
    tree = record_of(built.here("show", built.here("build", "hello").answer, "--json").out)
    program = {"path": "usr/share/hello/run", "type": "file", "executable": True, "size_bytes": 40}
    contents = b"#!/bin/sh\ncat /usr/share/hello/greeting\n"
    assert tree["kind"] == "show-tree"
    assert tree["body"]["entries"][-1] == {**program, "sha256": sha256(contents).hex}
    blob = record_of(built.here("show", built.here("image").answer, "--json").out)
    assert blob["kind"] == "show-blob"
    assert blob["body"]["size_bytes"] == Path(blob["body"]["path"]).stat().st_size


def test_the_record_of_a_check_that_fails_names_the_difference(tmp_path: Path) -> None:
    with small_project(tmp_path) as small:
        small.write("derivations/small/build.sh", 'head -c 9 /dev/urandom > "$DERIVE_OUT/random"\n')
        ran = small.here("image", "--check", "--json")
    assert ran.code == 1
    (difference,) = record_of(ran.out)["body"]["differences"]
    assert (difference["derivation"], difference["path"], difference["what"]) == ("hello", "random", "contents")


# Completion


def test_the_completion_script_for_bash_completes_commands_options_and_choices(built: Small) -> None:
    script = built.here("completion", "bash").out
    assert subprocess.run(["bash", "-n"], input=script.encode(), check=False).returncode == 0

    def complete(*words: str) -> list[str]:
        before = words[-2]
        line = (
            f"{script}\ncomplete -p derive >/dev/null || exit 1\n"
            f"COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}\n"
            f"$(complete -p derive | sed 's/.*-F \\([^ ]*\\).*/\\1/') derive '{words[-1]}' '{before}'\n"
            'printf "%s\\n" "${COMPREPLY[@]}"\n'
        )
        done = subprocess.run(["bash"], input=line, capture_output=True, text=True, cwd=built.root, check=False)
        return done.stdout.split()

    assert complete("derive", "ima") == ["image"]
    assert complete("derive", "") == list(COMMANDS)
    assert complete("derive", "image", "--pl") == ["--platform"]
    assert complete("derive", "image", "--platform", "linux/ar") == ["linux/arm64"]
    assert complete("derive", "image", "--store", "deriv") == ["derivations"]


@pytest.mark.parametrize("name", ["zsh", "tcsh"])
def test_there_is_a_completion_script_for_other_shells(name: str) -> None:
    assert "derive" in run_here("completion", name).answer


# Streams


def test_a_reader_that_leaves_early_is_no_failure(built: Small) -> None:
    tree = built.here("build", "hello").answer
    assert shell(built, f"derive show tree:{tree} | head -1") == Ran(0, f"tree   {tree}\n", "")
    assert shell(built, f"derive show tree:{tree} | true") == Ran(0, "", "")
    assert shell(built, "derive --version | true") == Ran(0, "", "")


def test_an_answer_that_cannot_be_written_is_a_failure(built: Small) -> None:
    full = shell(built, "derive image > /dev/full")
    assert (full.code, full.err) == (3, "error: the answer cannot be written: no space left on device\n")
    closed = shell(built, "derive image >&-")
    assert (closed.code, closed.err) == (3, "error: standard output is closed, and there is an answer\n")
    assert shell(built, "derive --version > /dev/full").code == 3


def test_nobody_reading_what_it_says_does_not_stop_it(built: Small) -> None:
    digest = built.here("image").out
    assert shell(built, "derive image --check 2>&-") == Ran(0, digest, "")
    assert shell(built, "derive image --check 2>/dev/full") == Ran(0, digest, "")
    assert shell(built, "{ derive image --check 2>&3 | cat; } 3> >(true)").out == digest


# Surroundings


def test_a_project_is_found_from_a_folder_in_it_and_by_name_absolute_or_relative(built: Small) -> None:
    digest = built.here("image").out
    for line in (
        "cd derivations/small && derive image",
        "cd .. && derive image --project small",
        "cd / && derive --project '{}' image",
        "cd derivations && derive image --project ..",
    ):
        assert shell(built, line.format(built.root)) == Ran(0, digest, ""), line


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("cd / && derive image", "error: /: no project here: "),
        ("derive image --project /nonexistent", "error: /nonexistent/pyproject.toml: no such file\n"),
        ("derive lock --project derivations", "error: derivations/pyproject.toml: no such file\n"),
        ("mkdir ../gone && cd ../gone && rmdir ../gone && derive image", "error: the working folder is gone\n"),
    ],
)
def test_no_project_is_said(built: Small, line: str, said: str) -> None:
    ran = shell(built, line)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(said)


def test_a_store_that_is_a_file_is_said(built: Small) -> None:
    ran = built.here("image", "--store", str(built.root / "pyproject.toml"))
    assert (ran.code, ran.out) == (3, "")
    assert "pyproject.toml: the store cannot be opened: not a directory\n" in ran.err
    assert "--store" in ran.err


@pytest.mark.parametrize("command", ["image", "build"])
def test_a_dry_run_prints_the_plan_and_builds_nothing(built: Small, command: str) -> None:
    store = str(built.root / "dry")
    name = "small" if command == "image" else "hello"
    dry = built.here(command, name, "--dry-run", "--store", store)
    plan = built.here("plan", name, "--store", store)
    assert re.sub("disk free.*", "", dry.answer) == re.sub("disk free.*", "", plan.answer)
    assert not (built.root / "dry").exists()


@pytest.mark.parametrize(
    "env",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": None, "LANG": None},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "tr_TR.UTF-8"},
    ],
    ids=lambda env: " ".join(f"{name}={value}" for name, value in env.items()),
)
def test_accents_in_paths_work_in_every_locale(built: Small, tmp_path: Path, env: Mapping[str, str | None]) -> None:
    place = tmp_path / "Prüfung é"
    shutil.copytree(built.root, place / "small")
    ran = shell(built, f"cd '{place}/small' && derive build hello --path --store '{place}/store'", env)
    assert ran.code == 0, ran.err
    assert ran.out.startswith(f"{place}/store/trees/")


def test_a_place_whose_name_is_not_utf_8_is_answered_byte_by_byte_and_escaped_in_records(
    built: Small, tmp_path: Path
) -> None:
    place = os.fsencode(tmp_path) + b"/caf\xe9"
    shutil.copytree(built.root, os.fsdecode(place + b"/small"))
    command_line = [*command("build", "hello", "--store"), os.fsdecode(place + b"/store")]
    for more in ("--path", "--json"):
        done = subprocess.run(
            [*command_line, more],
            env=environment(built.environment),
            cwd=place + b"/small",
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        if more == "--path":
            assert done.stdout.startswith(place + b"/store/trees/")
        else:
            assert unescape(record_of(done.stdout)["body"]["path"]).startswith(place + b"/store/trees/")


def test_a_user_without_a_home_is_told_to_name_a_store() -> None:
    if os.geteuid() != 0:
        skip_or_fail("only root can be someone without a home")
    nobody = ("setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "env", "-u", "HOME", "-u", "XDG_DATA_HOME")
    env = environment({"DERIVE_STORE": ""})
    done = subprocess.run(
        [*nobody, *command("show", "tree:x")], env=env, cwd="/", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "error: this user has no home folder for a store\n  hint: name one with --store, or DERIVE_STORE\n"
    )


def test_without_variables_the_store_lies_in_the_user_s_data_folder(built: Small, tmp_path: Path) -> None:
    ran = shell(
        built, "derive build hello --path", {"DERIVE_STORE": None, "XDG_DATA_HOME": None, "HOME": str(tmp_path)}
    )
    assert ran.answer.startswith(f"{tmp_path}/.local/share/derive/store/trees/")


# Never a traceback

VALUES = (
    *('"x"', "-1", "0", "[]", "{}", "1.5", "true", "null", "2026-01-01", '"\\u0000"', '"/"', '"../x"', '"é"', '""'),
    *("99999999999999999999", "[[]]", '["x"]', "{a = 1}", '{"a": 1}', '"\\ud800"', '"."', '"hello"', '"any"', "inf"),
)
TOKEN = re.compile(r'"[^"\n]*"|\d+|\[[^\]\n]*\]|\{[^}\n]*\}|[a-z-]+(?= =)')


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[str, bytes]]:
    """Return one to three of the project's files, each with one thing in it spoilt."""
    found = []
    for path in draw(st.lists(st.sampled_from([*CONTENT, "lock/base.lock.json"]), min_size=1, max_size=3, unique=True)):
        text = ORIGINALS[path].decode()
        spans = [match.span() for match in TOKEN.finditer(text)]
        start, end = 0, 0
        if spans and draw(st.sampled_from((True, True, True, False))):
            start, end = draw(st.sampled_from(spans))
            data = (text[:start] + draw(st.sampled_from(VALUES)) + text[end:]).encode()
        else:
            start = draw(st.integers(0, len(text)))
            end = min(len(text), start + draw(st.sampled_from((0, 1, 3, 40))))
            data = text[:start].encode() + draw(st.binary(max_size=8)) + text[end:].encode()
        found.append((path, data))
    return found


ORIGINALS: dict[str, bytes] = {}


@pytest.fixture(scope="module")
def spoilt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    with small_project(tmp_path_factory.mktemp("spoilt")) as small:
        ORIGINALS.update({path: (small.root / path).read_bytes() for path in (*CONTENT, "lock/base.lock.json")})
        yield small


@pytest.mark.usefixtures("spoilt")
def test_a_spoilt_file_never_gives_a_traceback(spoilt: Small) -> None:
    @settings(max_examples=150, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(edits())
    def try_it(changes: list[tuple[str, bytes]]) -> None:
        for path, data in ORIGINALS.items():
            spoilt.write(path, dict(changes).get(path, data))
        ran = spoilt.here("plan")
        assert ran.code in (0, 2), ran.err
        assert "a fault of derive itself" not in ran.err
        assert bool(ran.out) == (ran.code == 0)

    try_it()


def test_a_fault_of_derive_itself_is_one_error_and_the_traceback_is_there_for_the_asking(
    built: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("derive.cli.plan._text", lambda *_, **__: str(())[2])
    ran = built.here("plan")
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(
        "error: a fault of derive itself\n       IndexError: string index out of range\n       at "
    )
    assert "hint: please report it" in ran.err
    monkeypatch.setenv("DERIVE_TRACEBACK", "1")
    with pytest.raises(IndexError):
        built.here("plan")


def test_nothing_here_asked_for_more_than_the_project_locks(built: Small) -> None:
    assert {path.rpartition("/")[2] for path in built.server.paths()} <= set(artifacts())


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["image", "small@linux/arm64"], 0),
        (["image", "image:small"], 0),
        (["plan", "hello@linux/arm64"], 0),
        (["build", "drv:hello@linux/amd64"], 0),
        (["log", "hello@linux/amd64"], 0),
        (["plan", "."], 2),
        (["image", "drv:hello"], 2),
        (["image", ""], 2),
        (["plan", ""], 2),
        (["build", "hello@linux/riscv"], 2),
        (["image", "abcdefabcdef"], 2),
    ],
)
def test_names_with_their_kind_and_platform_are_taken_and_what_is_no_name_is_not(
    built: Small, arguments: list[str], code: int
) -> None:
    assert built.here(*arguments).code == code


def test_an_empty_argument_is_no_choice(built: Small) -> None:
    for arguments in (["image", "--output", ""], ["init", ""]):
        assert built.derive(*arguments).code == 2


def test_an_image_of_which_a_layer_is_gone_is_derived_again(tmp_path: Path) -> None:
    with small_project(tmp_path) as small:
        digest = small.here("image").answer
        with LocalStore(small.store) as store:
            manifest = json.loads(b"".join(store.read_blob(Digest.parse(digest))))
            layers = [Digest.parse(layer["digest"]) for layer in manifest["layers"]]
            store.blob_path(layers[1]).unlink()
        assert small.here("image").answer == digest
        with LocalStore(small.store) as store:
            assert all(store.has_blob(layer) for layer in layers)


def test_an_image_that_is_derived_again_from_an_older_state_is_the_one_that_is_kept(tmp_path: Path) -> None:
    with small_project(tmp_path) as small:
        first = small.here("image").answer
        small.edit("derivations/small/build.sh", "cp /in/source/run", "echo more; cp /in/source/run")
        small.edit("patches/hello/0001-greet.patch", "+hello, world", "+hello, worlds")
        second = small.here("image").answer
        small.edit("derivations/small/build.sh", "echo more; cp /in/source/run", "cp /in/source/run")
        small.edit("patches/hello/0001-greet.patch", "+hello, worlds", "+hello, world")
        assert small.here("image").answer == first != second
        with LocalStore(small.store) as store:
            assert [str(digest) for kind, _, digest in store.database.roots() if kind == "image"] == [first]
            index = json.loads((small.store / "index.json").read_bytes())
        assert [entry["digest"] for entry in index["manifests"]] == [first]
