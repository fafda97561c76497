# SPDX-License-Identifier: Apache-2.0
"""Arguments and variables of a cluster file: those that a recipe types, and those that follow or are the site's.

Core: no IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from derive.canonical import Json
from derive.importing.account import Account
from derive.importing.argv import Arguments, holds_null
from derive.importing.docker import DockerArguments
from derive.importing.follows import HIDDEN, Given, is_secret, site_key
from derive.importing.mounting import Mounted
from derive.importing.work import Work, set_at


def place_arguments(work: Work, read: Arguments, mounted: Mounted, given: Given) -> None:
    """Place what the served program is told."""
    account = work.account
    words = ["{model}" if word == mounted.snapshot else word for word in read.positional]
    if words:
        set_at(work.tables, "service.positional", list(words))
        account.add(f"serve_args: {' '.join(read.positional)}", "placed", "service.positional", of="serve_args")
    placed: dict[str, Json] = {}
    for name, value in read.options.items():
        element = f"serve_args: --{name}"
        if name == "port" and isinstance(value, int):
            set_at(work.tables, "service.port", value)
            _same_port(work, value)
            account.add(element, "placed", "service.port", of="serve_args")
        elif (rule := given.rule("arguments", name)) is not None:
            account.add(element, "derived", f"arguments.{name}", rule, of="serve_args")
        elif is_secret(name, value):
            account.add(element, "unplaced", note=HIDDEN, of="serve_args")
        elif holds_null(value) or value in ([], {}):
            account.add(element, "unplaced", note="a recipe has no null and no empty list", of="serve_args")
        else:
            placed[name] = _without_derived(name, value, given, account)
            account.add(element, "placed", f"arguments.{name}", of="serve_args")
    if placed:
        work.tables["arguments"] = {name: value for name, value in placed.items() if value != {}}


def _same_port(work: Work, port: int) -> None:
    """Readiness is asked of the service's own port."""
    key = "deployment.ready_url"
    url = work.fields.get(key)
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
    except ValueError:
        return  # told where its path is read
    try:
        asked = parts.port if parts is not None else None
    except ValueError:
        asked = -1
    if asked not in (None, port):
        work.fields.wrong(key, "not the port that the service has", f"{port}, as --port says", url)


def _without_derived(name: str, value: Json, given: Given, account: Account) -> Json:
    if not isinstance(value, Mapping):
        return value
    rules = {key: rule for key in value if (rule := given.rule("arguments", name, key)) is not None}
    for key, rule in rules.items():
        account.add(f"serve_args: --{name}.{key}", "derived", f"arguments.{name}.{key}", rule, of="serve_args")
    return {key: inner for key, inner in value.items() if key not in rules}


def place_environment(work: Work, docker: DockerArguments, given: Given) -> Mapping[str, str]:
    """Place the variables; return all of them, also those that the site says."""
    said: dict[str, str] = {}
    placed: dict[str, Json] = {}
    for name, text in docker.environment.items():
        if is_secret(name, text):
            continue
        said[name] = text
        if site_key(name) is None and given.rule("environment", name) is None:
            placed[name] = text
    for name, value in work.fields.mapping("environment").items():
        key = f"environment.{name}"
        if not isinstance(value, str):
            work.fields.wrong(key, "not text", "text", repr(value))
            continue
        if is_secret(name, value):
            work.account.add(key, "unplaced", note=HIDDEN)
            continue
        said[name] = value
        place = site_key(name)
        if place is not None:
            _site_variable(work, name, place, value)
        elif (rule := given.rule("environment", name)) is not None:
            work.account.add(key, "derived", key, rule)
        else:
            placed[name] = value
            work.account.placed(key, key)
    if placed:
        work.tables["environment"] = dict(sorted(placed.items()))
    return said


def _site_variable(work: Work, name: str, place: str, value: str) -> None:
    key = f"environment.{name}"
    before = work.site.setdefault(place, value)
    if place != "cables" and before != value:
        work.fields.wrong(key, "differs from a variable that says the same of the site", before, value)
    work.account.add(key, "site", place)
