# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from derive.buildkit.image import (
    context_names,
    dockerfile,
    dockerfile_problems,
    marked,
    readme,
    settings_differences,
    starter,
)
from derive.canonical import Digest
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


def test_an_exported_image_is_built_by_one_command_that_names_each_layer_by_digest() -> None:
    script = starter("tool", "linux/arm64", {"layer-1": f"oci-layout://layers@{NATIVE}"})
    assert f"  --build-context layer-1=oci-layout://layers@{NATIVE} \\\n" in script
    assert "  --build-arg SOURCE_DATE_EPOCH=315532800 \\\n" in script
    assert '"${OUTPUT:-type=oci,rewrite-timestamp=true,dest=tool.oci.tar}"' in script
    assert str(NATIVE) in readme("tool", "linux/arm64", NATIVE)
