# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse
import errno
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from derive.cli import console
from derive.cli.console import (
    answer,
    answer_record,
    guarded,
    jobs_of,
    path_text,
    print_error,
    project_of,
    store_folder,
    table,
    wants_json,
)
from derive.errors import (
    BuildFailed,
    CheckFailed,
    DeriveError,
    HostRefuses,
    InputErrors,
    Interrupted,
    Problem,
    SeveralFailed,
)
from support.cli import SOURCES, environment

PYPROJECT = '[tool.derive]\nformat = 1\ndefault-image = "a"\nbuild-platform = "linux/amd64"\n'


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def raising(error: BaseException) -> Callable[[], int]:
    def run() -> int:
        raise error

    return run


def namespace(**values: object) -> argparse.Namespace:
    return argparse.Namespace(**values)


def test_an_error_is_its_place_message_details_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(HostRefuses("no space", where="here", detail=["free      1", "need      2"], hint="make some"))
    assert (
        capsys.readouterr().err == "error: here: no space\n       free      1\n       need      2\n  hint: make some\n"
    )


def test_an_error_without_more_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(DeriveError("it is so"))
    assert capsys.readouterr().err == "error: it is so\n"


def test_several_problems_are_counted_at_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(InputErrors([Problem(where="b", message="two"), Problem(where="a", message="one")]))
    assert capsys.readouterr().err == "error: a: one\nerror: b: two\nerror: 2 problems in the input\n"


def test_steps_that_failed_beside_each_other_are_told_each_with_its_log_and_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = InputErrors([Problem(where="a: x", message="one"), Problem(where="a: y", message="two")])
    wrong.log = "/a.log"
    print_error(SeveralFailed([wrong, BuildFailed("it broke", where="b", log="/b.log")]))
    assert capsys.readouterr().err == (
        "error: a: x: one\nerror: a: y: two\n  log:  /a.log\nerror: 2 problems in the input\n"
        "error: b: it broke\n  log:  /b.log\nerror: 2 steps failed\n"
    )


def test_a_log_is_named_last(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(BuildFailed("it broke", hint="read it", log="/x.log"))
    assert capsys.readouterr().err == "error: it broke\n  hint: read it\n  log:  /x.log\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CheckFailed("no"), 1),
        (InputErrors.one("wrong"), 2),
        (HostRefuses("cannot"), 3),
        (BuildFailed("broke"), 3),
        (Interrupted("stopped"), 130),
        (KeyboardInterrupt(), 130),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), 3),
        (MemoryError(), 3),
        (KeyError("k"), 3),
    ],
)
def test_every_error_has_its_exit_code_and_is_said(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_drop_answer", lambda: None)
    assert guarded(raising(error)) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: ")


def test_what_a_run_returns_is_the_exit_code() -> None:
    assert guarded(lambda: 1) == 1


def test_an_error_of_the_system_names_its_file(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_drop_answer", lambda: None)
    guarded(raising(PermissionError(errno.EACCES, "Permission denied", b"/caf\xe9")))
    assert capsys.readouterr().err == "error: /caf\\xe9: permission denied\n"


def test_a_reader_that_left_is_no_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[bool] = []
    monkeypatch.setattr(console, "_drop_answer", lambda: dropped.append(True))
    assert guarded(raising(BrokenPipeError())) == 0
    assert (dropped, capsys.readouterr().err) == ([True], "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_became_another_error_on_its_way_is_an_interrupt(
    number: signal.Signals, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_drop_answer", lambda: None)

    class Named:
        def __set_name__(self, owner: type, name: str) -> None:
            signal.raise_signal(number)

    def run() -> int:
        # Up to Python 3.11 a RuntimeError comes of it.
        type("Made", (), {"named": Named()})
        return 0

    before = signal.getsignal(number)
    assert guarded(run) == 130
    assert signal.getsignal(number) == before
    hint = "run the same command again: everything finished is kept"
    assert capsys.readouterr().err == f"error: interrupted\n  hint: {hint}\n"


def test_an_interrupt_while_modules_are_imported_ends_in_silence(tmp_path: Path) -> None:
    (tmp_path / "argparse.py").write_text("print('here', flush=True)\nimport time\ntime.sleep(60)\n")
    code = "import sys; sys.argv[1:] = ['plan']; from derive.cli.main import console; console()"
    path = f"{tmp_path}:{SOURCES}"
    started = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment({"PYTHONPATH": path}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == b"here\n"
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=20)
    assert started.returncode == 130
    assert b"Traceback" not in said


def test_what_is_ignored_on_purpose_stays_ignored() -> None:
    def run() -> int:
        signal.raise_signal(signal.SIGINT)
        return 0

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert guarded(run) == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_end_of_the_process_is_asked_for_as_an_interrupt() -> None:
    def run() -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    assert guarded(run) == 130


def test_an_answer_ends_its_line_and_keeps_bytes_that_are_no_text(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    answer("é \udce9")
    answer("whole\n")
    assert capsysbinary.readouterr().out == b"\xc3\xa9 \xe9\nwhole\n"


def test_a_record_is_laid_out_for_people_and_keeps_characters(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    answer_record("kind", "é", {"a": 1})
    out = capsysbinary.readouterr().out.decode()
    assert out.startswith('{\n "derive": "record/1",\n "kind": "kind",\n "subject": "é",\n "previous": null,\n')


def test_a_path_in_a_record_is_escaped() -> None:
    assert path_text(Path("/a %/caf\udce9")) == "/a %25/caf%E9"


def test_a_table_lines_its_columns_up() -> None:
    rows = [("name", "size"), ("a", "100"), ("longer", "1")]
    assert table(rows, right=frozenset({1})) == "name    size\na        100\nlonger     1"
    assert table([("a", ""), ("bb", "")]) == "a\nbb"
    assert table([]) == ""


def test_the_store_is_the_option_else_the_variable_else_the_user_s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DERIVE_STORE", "/variable")
    assert store_folder(namespace(store="option")) == tmp_path / "option"
    assert store_folder(namespace()) == Path("/variable")
    monkeypatch.setenv("DERIVE_STORE", "")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert store_folder(namespace()) == Path("/data/derive/store")
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", "/home/me")
    assert store_folder(namespace()) == Path("/home/me/.local/share/derive/store")


def test_jobs_are_what_is_asked_for_else_the_processors() -> None:
    assert jobs_of(namespace(jobs=7)) == 7
    assert jobs_of(namespace()) >= 1


def test_json_is_off_unless_asked_for() -> None:
    assert (wants_json(namespace(json=True)), wants_json(namespace())) == (True, False)


def test_wrong_settings_and_wrong_content_are_said_together(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.toml").write_text("x = 1\n")
    (tmp_path / "pyproject.toml").write_text(PYPROJECT + "extra = 1\n")
    with pytest.raises(InputErrors) as caught:
        project_of(namespace(project=str(tmp_path)))
    places = [problem.where for problem in caught.value.problems()]
    assert "pyproject.toml: tool.derive.extra" in places
    assert "images/a.toml: x" in places


def test_wrong_content_alone_is_left_to_what_evaluates_it(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT)
    assert project_of(namespace(project=str(tmp_path))).settings.default_image == "a"
