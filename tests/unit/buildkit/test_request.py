# SPDX-License-Identifier: Apache-2.0
"""A step as a Dockerfile and settings: every mount, variable and word, and nothing that a name or value could break."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from derive.buildkit.request import BEGINNING, dockerfile, input_context, settings, step_of
from derive.canonical import Digest
from derive.errors import BuildFailed, InputErrors
from derive.sandbox.request import Command, Program, Script
from derive.trees.listing import DIRECTORY, Entry, File, Listing, Symlink

PROGRAM = File(executable=True, size=1, sha256=Digest("0" * 64))
PLAIN = File(executable=False, size=1, sha256=Digest("0" * 64))
ROOT: Mapping[bytes, Entry] = {
    b"usr/bin/dash": PROGRAM,
    b"usr/bin/sh": Symlink(b"dash"),
    b"bin": Symlink(b"usr/bin"),
    b"etc/hosts": PLAIN,
    b"tmp": DIRECTORY,
}

EXPECTED = """\
# perftest: its root and its inputs are contexts by digest.
FROM root AS step
RUN --network=none \\
    --mount=type=bind,from=in-0,source=/tree,target=/in/B+c \\
    --mount=type=bind,from=in-1,source=/tree,target=/in/a \\
    --mount=type=bind,from=extra,source=/script,target=/in/.derive-script \\
    --mount=type=bind,from=root,source=/etc/hosts,target=/etc/hosts \\
    --mount=type=bind,from=extra,source=/empty,target=/etc/resolv.conf \\
    --mount=type=tmpfs,target=/sys \\
    --mount=type=tmpfs,target=/tmp \\
    --mount=type=tmpfs,target=/dev/shm \\
    ARGV

FROM scratch
COPY --from=step /out/ /
"""


def text_of(
    command: Command, root: Mapping[bytes, Entry] = ROOT, name: str = "perftest", inputs: tuple[str, ...] = ()
) -> str:
    return dockerfile(step_of(name, Listing.of(root), command, inputs, {}, 2))


def argv_of(text: str) -> list[str]:
    (line,) = (line for line in text.splitlines() if line.startswith("    ["))
    words: list[str] = json.loads(line)
    return words


def test_a_script_is_a_file_of_a_context_and_each_input_a_mount_of_its_own() -> None:
    text = text_of(Script(text="true"), inputs=("a", "B+c"))
    line = next(line for line in text.splitlines() if line.startswith("    ["))
    assert text.replace(line, "    ARGV") == EXPECTED


def test_a_shell_starts_the_script_and_tells_first_that_it_begins() -> None:
    words = argv_of(text_of(Script(text="true")))
    assert words[:2] == ["/bin/sh", "-c"]
    assert f"printf '{BEGINNING}%s\\n'" in words[2]
    assert words[3:] == ["/bin/sh", "/bin/sh", "-eu", "/in/.derive-script"]


def test_a_program_of_a_root_without_a_shell_is_started_as_it_is() -> None:
    program = Program(argv=("/opt/tool", "--x", "a b"))
    assert argv_of(text_of(program, {b"opt/tool": PROGRAM})) == ["/opt/tool", "--x", "a b"]
    assert argv_of(text_of(program, {**ROOT, b"opt/tool": PROGRAM}))[-3:] == ["/opt/tool", "--x", "a b"]


@pytest.mark.parametrize("word", ["<<EOF", "a\nRUN b", "$HOME ${X}", '"]', "\\", "é \U0001f600", "#"])
def test_no_argument_is_read_as_anything_but_itself(word: str) -> None:
    text = text_of(Program(argv=("/bin/sh", word)))
    assert argv_of(text)[-1] == word
    assert "<<" not in text
    assert len(text.splitlines()) == len(text_of(Program(argv=("/bin/sh", "x"))).splitlines())


def test_a_name_stays_within_its_comment() -> None:
    assert text_of(Script(text="true"), name="a\nRUN b").startswith("# a?RUN b: its root")


def test_the_settings_hold_every_variable_of_the_sandbox_and_no_other() -> None:
    step = step_of("it", Listing.of(ROOT), Script(text="true"), (), {"OWN": 'a $b "c"\n'}, 3)
    assert settings(step) == {
        "Env": [
            "DERIVE_JOBS=3",
            "DERIVE_OUT=/out",
            "HOME=/build",
            "LC_ALL=C.UTF-8",
            'OWN=a $b "c"\n',
            "PATH=/usr/bin:/bin:/usr/sbin:/sbin",
            "PWD=/build",
            "SOURCE_DATE_EPOCH=315532800",
            "TZ=UTC",
        ],
        "User": "1000:1000",
        "WorkingDir": "/build",
    }


def test_the_build_arguments_give_the_host_name_and_take_every_proxy_away() -> None:
    arguments = step_of("it", Listing.of(ROOT), Script(text="true"), (), {}, 1).build_arguments
    assert arguments["BUILDKIT_SANDBOX_HOSTNAME"] == "derive"
    proxies = {name for name in arguments if name.lower().endswith("_proxy")}
    assert len(proxies) == 10
    assert {arguments[name] for name in proxies} == {""}


def test_what_the_sandbox_refuses_is_refused_in_its_words() -> None:
    with pytest.raises(InputErrors) as caught:
        step_of("it", Listing.of({**ROOT, b"out": PLAIN}), Script(text="true"), ("no/name",), {"HOME": "/x"}, 1)
    assert len(caught.value.problems()) == 3


def test_a_root_without_the_program_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(BuildFailed, match="the root has no /bin/sh that can run"):
        text_of(Script(text="true"), {b"bin/sh": Symlink(b"nowhere")})
    with pytest.raises(BuildFailed, match="/opt/tool in the root is not executable"):
        text_of(Program(argv=("/opt/tool",)), {b"opt/tool": PLAIN})


def test_contexts_have_names_that_buildx_takes() -> None:
    assert [input_context(number) for number in (0, 11)] == ["in-0", "in-11"]
