# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from derive.buildkit.image import (
    context_names,
    dockerfile,
    dockerfile_problems,
    marked,
    readme,
    settings_differences,
    starter,
    unasked,
)
from derive.canonical import Digest
from derive.images.encoding import MEDIA_TYPE
from derive.images.oci import ImageConfig

NATIVE = Digest("a" * 64)


def text(config: ImageConfig, contexts: tuple[str, ...] = ("layer-1-root",)) -> str:
    return dockerfile("tool", "linux/amd64", NATIVE, contexts, marked(config, NATIVE))


def test_a_dockerfile_copies_layers_from_the_bottom_and_then_says_what_programs_run_with() -> None:
    config = ImageConfig(
        environment={"B": "2", "A": "1"},
        entrypoint=("/bin/tool", "--serve"),
        command=("a b",),
        user="7:7",
        working_folder="/srv",
        stop_signal="SIGINT",
        exposed_ports=("80/tcp",),
    )
    assert text(config, ("layer-1-root", "layer-2-tools")) == (
        f"""\
# The image tool for linux/amd64, whose digest is {NATIVE}.
# Each context is one of its layers, the bottom first.
FROM scratch
COPY --link --from=layer-1-root / /
COPY --link --from=layer-2-tools / /
ENV A="1"
ENV B="2"
ENV PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LABEL "io.derive.backend"="buildkit"
LABEL "io.derive.native"="{NATIVE}"
EXPOSE 80/tcp
STOPSIGNAL SIGINT
WORKDIR /srv
USER 7:7
ENTRYPOINT ["/bin/tool", "--serve"]
CMD ["a b"]
"""
    )


def test_nothing_in_a_value_is_a_variable_an_escape_or_an_end() -> None:
    assert r'ENV A="\$HOME \"x\" \\"' in text(ImageConfig(environment={"A": '$HOME "x" \\'}))
    assert r'WORKDIR "/a b\$c"' in text(ImageConfig(working_folder="/a b$c"))


def test_what_is_the_default_is_not_said() -> None:
    lines = text(ImageConfig(working_folder="/")).splitlines()
    assert [line.split()[0] for line in lines if not line.startswith("#")] == ["FROM", "COPY", "ENV", "LABEL", "LABEL"]


@pytest.mark.parametrize(
    ("config", "place"),
    [
        (ImageConfig(environment={"A": "1\n2"}), "here.environment.A"),
        (ImageConfig(environment={"a b": "1"}), "here.environment"),
        (ImageConfig(labels={"a": "\x1b[0m"}), "here.labels"),
        (ImageConfig(working_folder="/a\nUSER 0"), "here.working-folder"),
    ],
)
def test_what_no_dockerfile_can_say_is_named_with_its_key(config: ImageConfig, place: str) -> None:
    assert [problem.where for problem in dockerfile_problems(config, "here")] == [place]


def test_contexts_are_named_by_place_and_by_what_of_the_layer_s_name_fits() -> None:
    names = ["system/base", "wheels/vllm native", "", "Ünit"]
    assert context_names(names) == ("layer-1-system-base", "layer-2-wheels-vllm-native", "layer-3", "layer-4-nit")
    assert context_names([""] * 10)[0] == "layer-01"


def test_settings_that_are_not_the_same_are_named() -> None:
    (line,) = settings_differences(ImageConfig(user="7"), ImageConfig(user="8"))
    assert line == "user: '7', and in the other '8'"


@pytest.mark.parametrize(
    ("around", "inside", "line"),
    [
        ({}, {"Healthcheck": {"Test": ["CMD", "/evil"]}}, "Healthcheck: {'Test': ['CMD', '/evil']}"),
        ({}, {"OnBuild": ["RUN evil"]}, "OnBuild: ['RUN evil']"),
        ({}, {"Volumes": {"/usr": {}}}, "Volumes: {'/usr': {}}"),
        ({}, {"Shell": ["/evil"]}, "Shell: ['/evil']"),
        ({}, {"Env": ["PATH=/evil", "A=1", "PATH=/bin"]}, "the variable PATH twice"),
        ({"author": "eve"}, {}, "author: 'eve'"),
    ],
)
def test_what_nobody_asked_for_in_a_config_is_named(around: dict[str, Any], inside: dict[str, Any], line: str) -> None:
    said = json.dumps({"architecture": "arm64", "history": [{}], "config": {"OnBuild": None, **inside}, **around})
    assert unasked(said.encode(), [MEDIA_TYPE]) == [f"nobody asked for {line}"]


def test_what_builders_write_besides_and_says_nothing_is_passed_over() -> None:
    said = json.dumps({"config": {"ArgsEscaped": True, "Volumes": {}, "Env": ["A=1"]}, "created": "1980"})
    assert unasked(said.encode(), [MEDIA_TYPE]) == []


def test_a_layer_of_another_type_is_named() -> None:
    assert unasked(b"{}", [MEDIA_TYPE, "text/x", "text/x"]) == ["nobody asked for a layer of type text/x"]


def exported(folder: Path) -> Path:
    """Write the script of an exported image, and beside it a docker that says where it is, and with what."""
    folder.mkdir()
    (folder / "build.sh").write_text(starter("tool", "linux/arm64", {"layer-1": NATIVE}))
    docker = folder.parent / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text('#!/bin/sh\nprintf "%s\\n" "$PWD" "$@"\n')
    docker.chmod(0o755)
    return folder


def build(folder: Path, script: str, at: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Start the script in a folder."""
    at.mkdir(exist_ok=True)
    environment = {"PATH": f"{folder.parent / 'bin'}:{os.environ['PATH']}", **variables}
    return subprocess.run(
        ["sh", script, *arguments], cwd=at, env=environment, capture_output=True, text=True, check=False
    )


def test_an_exported_image_is_built_by_one_command_that_names_each_layer_by_digest(tmp_path: Path) -> None:
    folder = exported(tmp_path / "a folder")
    place, *words = build(folder, "build.sh", folder, "--tag", "a b").stdout.splitlines()
    assert place == str(folder)
    assert words[:2] == ["buildx", "build"]
    assert words[words.index("--build-context") + 1] == f"layer-1=oci-layout://./layers@{NATIVE}"
    assert words[words.index("--build-arg") + 1] == "SOURCE_DATE_EPOCH=315532800"
    assert words[words.index("--output") + 1] == "type=oci,rewrite-timestamp=true,dest=tool.oci.tar"
    assert words[-3:] == ["--tag", "a b", "."]


@pytest.mark.parametrize("script", ["../a folder/build.sh", "{folder}/build.sh"])
def test_an_exported_image_is_written_to_where_a_person_stands(tmp_path: Path, script: str) -> None:
    folder, at = exported(tmp_path / "a folder"), tmp_path / "at"
    path = script.format(folder=folder)
    place, *words = build(folder, path, at, OUTPUT="type=local,dest=out").stdout.splitlines()
    assert place == str(at), "a relative path in OUTPUT or an argument is one from here"
    assert words[words.index("--output") + 1] == "type=local,dest=out"
    here = path.removesuffix("/build.sh")
    assert words[words.index("--build-context") + 1] == f"layer-1=oci-layout://{here}/layers@{NATIVE}"
    assert words[-1] == here


def test_a_path_that_buildx_would_cut_is_refused_but_for_who_stands_inside(tmp_path: Path) -> None:
    folder = exported(tmp_path / "tool:1")
    refused = build(folder, f"{folder}/build.sh", tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "takes what follows ':' or '@' for a tag or a digest" in refused.stderr
    assert build(folder, "build.sh", folder).returncode == 0


def test_what_is_exported_says_of_what_it_is_and_how_a_builder_and_a_context_are_named() -> None:
    text = readme("tool", "linux/arm64", NATIVE)
    assert str(NATIVE) in text
    assert "    sh build.sh --builder NAME\n" in text
    assert "    DOCKER_CONTEXT=NAME sh build.sh\n" in text
