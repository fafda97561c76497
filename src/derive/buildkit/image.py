# SPDX-License-Identifier: Apache-2.0
"""An image as a Dockerfile that a person can read: one ``COPY`` for each layer, then what its programs run with.

Core: no IO.

The layers are contexts by digest, each an image of that one layer. Nothing runs while such a Dockerfile is built, so
that any builder builds it for any platform.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from derive.canonical import EPOCH, Digest, decode
from derive.errors import Problem
from derive.images.documents import mapping
from derive.images.encoding import MEDIA_TYPE as LAYER
from derive.images.oci import BACKEND_LABEL, NATIVE_LABEL, ImageConfig

BACKEND = "buildkit"

BUILD_ARGUMENTS: Mapping[str, str] = MappingProxyType({"SOURCE_DATE_EPOCH": str(EPOCH)})

OUTPUT: Mapping[str, str] = MappingProxyType({"type": "oci", "rewrite-timestamp": "true"})
"""How the result is written, wherever to: with the one time of all images in its layers, too."""

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""What BuildKit sets where an image sets no PATH; an engine does so as well, when it starts a container."""

_COMPARED = frozenset(
    ("Env", "Entrypoint", "Cmd", "User", "WorkingDir", "Labels", "StopSignal", "ExposedPorts", "ArgsEscaped")
)
"""Keys of a config's settings that are compared; the last one says something on Windows alone."""
_COMPARED_AROUND = frozenset(("architecture", "os", "variant", "config", "rootfs", "created", "history"))
"""Keys around them: what they say is compared, a digest of the layers, or told to people alone."""

LAYERS = "layers"
"""The folder of an exported image's layers, an OCI layout of one image for each."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_PLAIN = re.compile(r"[A-Za-z0-9/._-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNFIT = re.compile(r"[^a-z0-9._-]+")


def marked(settings: ImageConfig, native: Digest) -> ImageConfig:
    """Return the settings of the image that BuildKit makes: those of the native one, and labels that say so."""
    labels = {**settings.labels, BACKEND_LABEL: BACKEND, NATIVE_LABEL: str(native)}
    return replace(settings, environment={"PATH": DEFAULT_PATH, **settings.environment}, labels=labels)


def dockerfile_problems(settings: ImageConfig, where: str) -> Iterator[Problem]:
    """Yield what an image's settings hold that no Dockerfile can say; ``where`` is the image's file and table."""
    for name, value in sorted(settings.environment.items()):
        if not _NAME.fullmatch(name):
            yield Problem(where=f"{where}.environment", message=f"a Dockerfile cannot name the variable {name!r}")
        elif _CONTROL.search(value):
            place = f"{where}.environment.{name}"
            yield Problem(
                where=place, message="a Dockerfile cannot hold a value with line breaks or control characters"
            )
    for name, value in sorted(settings.labels.items()):
        if _CONTROL.search(name + value):
            message = f"a Dockerfile cannot hold the label {name!r}: line breaks or control characters"
            yield Problem(where=f"{where}.labels", message=message)
    if _CONTROL.search(settings.working_folder):
        yield Problem(where=f"{where}.working-folder", message="a Dockerfile cannot hold a control character in a path")


def context_names(layers: Sequence[str]) -> tuple[str, ...]:
    """Return a name for the context of each layer, the bottom first: its place, and what of its name fits."""
    width = len(str(len(layers)))
    fitted = (_UNFIT.sub("-", name.lower()).strip("-._") for name in layers)
    return tuple("-".join(filter(None, (f"layer-{at:0{width}}", name))) for at, name in enumerate(fitted, 1))


def dockerfile(name: str, platform: str, native: Digest, contexts: Sequence[str], settings: ImageConfig) -> str:
    """Return the text; ``settings`` are those that :func:`marked` gave, and have no problem.

    The same bytes for the same image, always.
    """
    lines = [
        f"# The image {name} for {platform}, whose digest is {native}.",
        "# Each context is one of its layers, the bottom first.",
        "FROM scratch",
        # Linked copies do not depend on what is below them: a layer that did not move is not written again.
        *(f"COPY --link --from={context} / /" for context in contexts),
        *(f"ENV {key}={_quoted(value)}" for key, value in sorted(settings.environment.items())),
        *(f"LABEL {_quoted(key)}={_quoted(value)}" for key, value in sorted(settings.labels.items())),
        *(f"EXPOSE {port}" for port in settings.exposed_ports),
    ]
    if settings.stop_signal:
        lines.append(f"STOPSIGNAL {settings.stop_signal}")
    if settings.working_folder != "/":
        path = settings.working_folder
        lines.append(f"WORKDIR {path if _PLAIN.fullmatch(path) else _quoted(path)}")
    if settings.user:
        lines.append(f"USER {settings.user}")
    lines += [f"{word} {_list(one)}" for word, one in _programs(settings) if one]
    return "\n".join(lines) + "\n"


def settings_differences(native: ImageConfig, built: ImageConfig) -> list[str]:
    """Return what of the settings is not as :func:`marked` says, as lines for a person."""
    keys = ("environment", "entrypoint", "command", "user", "working_folder", "labels", "stop_signal", "exposed_ports")
    return [
        f"{key.replace('_', '-')}: {getattr(native, key)!r}, and in the other {getattr(built, key)!r}"
        for key in keys
        if getattr(native, key) != getattr(built, key)
    ]


def unasked(config: bytes, layer_types: Iterable[str]) -> list[str]:
    """Return what a built image says besides what is compared, as lines for a person: none of it was asked for.

    ``config`` is its config, which :func:`derive.images.base.config_of` reads; ``layer_types`` are its layers'. A
    health check runs in every container, a trigger in every build upon it, and of a variable that stands twice it is
    not settled which one counts.
    """
    whole = mapping(decode(config), "config")
    inner = mapping(whole.get("config") or {}, "config.config")
    found = [f"{key}: {value!r}" for key, value in whole.items() if value and key not in _COMPARED_AROUND]
    found += [f"{key}: {value!r}" for key, value in inner.items() if value and key not in _COMPARED]
    variables = inner.get("Env") or []
    names = [str(one).partition("=")[0] for one in variables] if isinstance(variables, list | tuple) else []
    found += [f"the variable {name} twice" for name in sorted({one for one in names if names.count(one) > 1})]
    found += [f"a layer of type {one}" for one in sorted({*layer_types} - {LAYER})]
    return [f"nobody asked for {one}" for one in found]


def _programs(settings: ImageConfig) -> Sequence[tuple[str, tuple[str, ...]]]:
    return (("ENTRYPOINT", settings.entrypoint), ("CMD", settings.command))


def _quoted(text: str) -> str:
    """Quote a text so that nothing in it is a variable, an escape or an end."""
    return '"' + re.sub(r'(["$\\])', r"\\\1", text) + '"'


def _list(arguments: Sequence[str]) -> str:
    return json.dumps(list(arguments), ensure_ascii=False)


def starter(name: str, platform: str, contexts: Mapping[str, Digest]) -> str:
    """Return the shell script that has buildx build an exported image; ``contexts`` are images of the layout beside it.

    It stays in the folder where it is started, so that paths in its arguments mean what they say.
    """
    result = ",".join(f"{key}={value}" for key, value in {**OUTPUT, "dest": f"{name}.oci.tar"}.items())
    return _STARTER.format(
        name=name,
        platform=platform,
        result=result,
        arguments="".join(f"  --build-arg {key}={value} \\\n" for key, value in BUILD_ARGUMENTS.items()),
        contexts="".join(
            f'  --build-context "{context}=oci-layout://$here/{LAYERS}@{image}" \\\n'
            for context, image in contexts.items()
        ),
    )


def readme(name: str, platform: str, native: Digest) -> str:
    """Return what a person is told beside an exported image."""
    return _README.format(
        name=name, platform=platform, native=native, backend=BACKEND_LABEL, backend_is=BACKEND, label=NATIVE_LABEL
    )


_STARTER = """\
#!/bin/sh
# Builds the image {name}; arguments go to docker buildx build, such as --builder NAME or --tag NAME.
# The engine of a Docker context is named otherwise: DOCKER_CONTEXT=NAME sh build.sh
# OUTPUT says where to, as the option --output does; keep rewrite-timestamp=true in it.
# Paths in it, and in arguments, are those of the folder where this is started.
here=$(dirname "$0") || exit
case $here in
*[:@]*)
  echo "$here: buildx takes what follows ':' or '@' for a tag or a digest: start this from inside, or move it" >&2
  exit 2
  ;;
esac
exec docker buildx build \\
  --platform {platform} \\
{arguments}\
{contexts}\
  --provenance=false \\
  --output "${{OUTPUT:-{result}}}" \\
  "$@" "$here"
"""

_README = """\
# The image {name} for {platform}

`Dockerfile` says what the image is: its layers, one upon the other, and what its programs run with. `layers` holds the
layers, as an OCI layout of one image for each; the Dockerfile names them, and `build.sh` says by their digests which
they are.

Build it:

    sh build.sh

That writes `{name}.oci.tar` into the folder where you are, as relative paths in `OUTPUT` are, too. To send it to a
registry instead:

    OUTPUT=type=registry,rewrite-timestamp=true sh build.sh --tag REGISTRY/{name}

On a builder by name, and on the engine of a Docker context, which is named otherwise:

    sh build.sh --builder NAME
    DOCKER_CONTEXT=NAME sh build.sh

Nothing is fetched and nothing is run, so any builder builds it for any platform. It needs docker with the plugin buildx
0.13 or newer, and BuildKit 0.13 or newer: a builder of the driver docker-container, or Docker's own where it keeps
images in containerd's store.

Files, owners, permission bits, times and settings are those of the image {native}.
The digest is another, because a builder compresses layers in its own way. The labels `{backend}` ({backend_is}) and
`{label}` (the digest above) say so. The same version of BuildKit gives the same digest again.
"""
