# SPDX-License-Identifier: Apache-2.0
"""A series and its patches from the contents of a folder, with every fault of all of them at once.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from derive.errors import InputErrors, Problem
from derive.patches.model import Patch
from derive.patches.parse import parse_patch
from derive.patches.series import SUFFIX, Series, parse_series


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedSeries:
    """A series and its patches, in the same order."""

    series: Series
    patches: tuple[Patch, ...]


def series_of(files: Mapping[str, bytes], where: str) -> LoadedSeries:
    """Parse a folder's ``series`` and the patches it names, given its files by name.

    ``where`` is how errors call the folder, such as ``patches/perftest``.

    Raises:
        InputErrors: with every fault of the series and of every patch file, listed or not.
    """
    problems: list[Problem] = []
    series = _series(files, where, problems)
    patches: dict[str, Patch] = {}
    present = sorted(name for name in files if name.endswith(SUFFIX))
    for name in present:
        place = f"{where}/{name}"
        if series is not None and name not in series.names:
            hint = "add it to the series, or delete it"
            problems.append(Problem(where=place, message="not in the series", hint=hint))
        try:
            patches[name] = parse_patch(name, files[name], where=place)
        except InputErrors as error:
            problems.extend(error.problems())
    absent = [name for name in (series.names if series is not None else ()) if name not in present]
    problems += [Problem(where=f"{where}/series", message=f"{name} is named, and is not there") for name in absent]
    if problems or series is None:
        raise InputErrors(problems)
    return LoadedSeries(series=series, patches=tuple(patches[name] for name in series.names))


def _series(files: Mapping[str, bytes], where: str, problems: list[Problem]) -> Series | None:
    place = f"{where}/series"
    if "series" not in files:
        hint = "write it: a line '# licence: <SPDX expression>', then the patches in order, one a line"
        problems.append(Problem(where=place, message="no such file", hint=hint))
        return None
    try:
        return parse_series(files["series"], where=place)
    except InputErrors as error:
        problems.extend(error.problems())
        return None
