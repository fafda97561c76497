# SPDX-License-Identifier: Apache-2.0
"""From what stands in an image file to the values that layers and configs are made from.

Core: no IO. Imports pydantic through the declarations.
"""

from __future__ import annotations

from derive.content import key_path
from derive.errors import InputErrors, Problem
from derive.images.capabilities import label
from derive.images.declarations import ImageDecl
from derive.images.modes import ModeTable, Rule
from derive.images.oci import (
    BACKEND_LABEL,
    CAPABILITIES_LABEL,
    NATIVE_LABEL,
    OVERLAY_LABEL,
    ImageConfig,
    config_problems,
)


def mode_table(image: ImageDecl, where: str) -> ModeTable:
    """Return an image's mode table; raises InputErrors on rules that no image may have, each with its key."""
    rules: list[Rule] = []
    problems: list[Problem] = []
    for path, mode in image.modes.items():
        rule = Rule(path=path.strip("/").encode(), mode=int(mode.mode, 8), uid=mode.uid, gid=mode.gid)
        rules.append(rule)
        try:
            ModeTable.of([rule], where=f"{where}.{key_path((path,))}")
        except InputErrors as error:
            problems.extend(error.problems())
    if problems:
        raise InputErrors(problems)
    return ModeTable.of(rules, where=where)


def image_config(image: ImageDecl, where: str) -> ImageConfig:
    """Return how a container of the image is started; raises InputErrors on what no config can hold."""
    declared = image.config
    # Upon a base, what is not said is what the base says.
    leaves_folder = image.base is not None and "working_folder" not in declared.model_fields_set
    config = ImageConfig(
        environment=declared.environment,
        entrypoint=declared.entrypoint,
        command=declared.command,
        user=declared.user,
        working_folder="" if leaves_folder else declared.working_folder,
        labels={**declared.labels, **label(image.capabilities)},
        stop_signal=declared.stop_signal or "",
    )
    problems = [*config_problems(config, where=where)]
    if OVERLAY_LABEL in config.labels:
        message = f"the label {OVERLAY_LABEL} is written by derive dev"
        problems.append(Problem(where=f"{where}.labels", message=message))
    for name in sorted({BACKEND_LABEL, NATIVE_LABEL} & declared.labels.keys()):
        message = f"the label {name} is written where another backend assembles the image"
        problems.append(Problem(where=f"{where}.labels", message=message))
    if CAPABILITIES_LABEL in declared.labels:
        message = f"the label {CAPABILITIES_LABEL} is written from capabilities"
        problems.append(Problem(where=f"{where}.labels", message=message))
    if problems:
        raise InputErrors(problems)
    return config
