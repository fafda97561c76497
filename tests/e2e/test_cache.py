# SPDX-License-Identifier: Apache-2.0
"""Outputs shared by a real registry between machines that trust each other's keys; what registry and thief can do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from derive.cache.entry import read_entry
from derive.canonical import Digest
from derive.store.local import LocalStore
from derive.trees.pack import NewFile, add_members
from derive.trust.keys import PublicKey
from support.faults import FaultProxy
from support.oci_registry import Registry, registry
from support.sharing import Machine
from support.small import Small, small_project

GREETING = "derivations/small/build.sh"
FILLED = "team/filled"
LOG_TAG = r"GET /v2/team/[^/]+/manifests/log-"
OUTPUT = r"GET /v2/team/[^/]+/manifests/(nar|flat|facts)-"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Small]:
    with small_project(tmp_path_factory.mktemp("small")) as small:
        yield small


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory, small: Small) -> Machine:
    """Return ann's machine, which has built the image."""
    machine = Machine.make(tmp_path_factory.mktemp("machines"), "ann", small)
    machine.key("ann")
    assert machine.here("image").code == 0
    return machine


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("registry")


@pytest.fixture(scope="module")
def running(place: Path, builder: Machine) -> Iterator[Registry]:
    """Return a registry with a repository that ann has pushed to."""
    with registry(place) as found:
        builder.cache(found.url, repository=FILLED)
        done = builder.here("cache", "push", "--key", "ann")
        assert done.code == 0, done.err
        builder.forget_cache()
        yield found


@pytest.fixture
def repository(running: Registry, place: Path, tmp_path: Path) -> str:
    """Return a repository of the test's own, which holds what ann pushed."""
    name = f"team/{tmp_path.name.replace('_', '-').lower()}"
    assert running.url
    folder = place / "data" / "docker" / "registry" / "v2" / "repositories"
    shutil.copytree(folder / FILLED, folder / name)
    return name


@pytest.fixture
def proxy(running: Registry) -> Iterator[FaultProxy]:
    with FaultProxy(running.host) as found:
        yield found


@pytest.fixture
def reader(tmp_path: Path, small: Small, proxy: FaultProxy, builder: Machine, repository: str) -> Machine:
    """Return ben's machine, which trusts ann and has built nothing."""
    machine = Machine.make(tmp_path, "ben", small)
    machine.cache(proxy.url, repository=repository)
    machine.trust({"ann": public_of(builder, "ann")})
    return machine


def public_of(machine: Machine, name: str) -> str:
    return machine.here("key", "show", name).answer


def digest_of(machine: Machine) -> str:
    return machine.here("image").answer


def came(machine: Machine) -> int:
    return int(json.loads(machine.here("cache", "status", "--json").out)["body"]["came_from_caches"])


def another_builder(
    reader: Machine, name: str, url: str, repository: str, keys: dict[str, str] | None = None
) -> Machine:
    """Return a machine with a key of its own that trusts some."""
    machine = Machine.make(reader.home.parent, name, reader.small)
    machine.cache(url, repository=repository)
    machine.trust({**(keys or {}), name: machine.key(name)})
    return machine


def pretend(machine: Machine) -> None:
    """Have a machine say that a step gave something else, as one whose compiler is owned would."""
    with LocalStore(machine.store) as store:
        for _, key, resolved, document in store.database.find_derivations("hello"):
            row = store.database.realisation(resolved)
            assert row is not None
            files = [(b"usr/share/hello/greeting", NewFile(executable=False, chunks=[b"owned"]))]
            tree = store.add_listing(add_members(store, files))
            lie = replace(row, outputs={"out": f"nar:{tree}"})
            store.database.replace_realisation(lie, key, "hello", document.encode())


def liar(reader: Machine, name: str, url: str, repository: str, *targets: str) -> Machine:
    """Return a machine whose key has pushed a lie about the step ``hello``, beside whatever else is pushed."""
    thief = another_builder(reader, name, url, repository)
    assert thief.here("image").code == 0
    pretend(thief)
    assert thief.here("cache", "push", *targets, "--key", name).code == 0
    return thief


def got(running: Registry, repository: str, what: str) -> bytes:
    """Read something from a repository as it is served."""
    url = f"{running.url}/v2/{repository}/{what}"
    return requests.get(url, headers={"Accept": MANIFEST}, timeout=5).content


def test_what_a_trusted_key_vouches_for_is_taken_and_nothing_below_it_is_fetched(
    reader: Machine, builder: Machine, small: Small, proxy: FaultProxy
) -> None:
    asked = len(small.server.paths())
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert len(small.server.paths()) == asked
    assert "1 from caches, 0 to build" in done.err
    assert "substituted  small" in done.err
    assert came(reader) == 1
    assert "came from       cache team, vouched for by ann" in reader.here("show", "small").out
    assert proxy.count(LOG_TAG) == 1  # one request for one key's log, however many steps there are


def test_planning_asks_no_network_once_the_logs_were_read(reader: Machine, proxy: FaultProxy) -> None:
    assert reader.here("cache", "pull").answer == "11"
    proxy.forget()
    planned = json.loads(reader.here("plan", "--json").out)["body"]
    assert [(step["action"], step["signers"]) for step in planned["steps"]] == [("substitute", ["ann"])]
    assert not proxy.seen


def test_an_output_with_too_few_signatures_is_built(reader: Machine, builder: Machine) -> None:
    reader.trust({"ann": public_of(builder, "ann"), "cat": reader.key("cat")}, threshold=2)
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert came(reader) == 0
    planned = reader.here("plan", "--all", env={"DERIVE_STORE": str(reader.home / "other")}).out
    assert "never built" in planned or "not built yet" in planned


def test_a_rule_for_a_step_lets_only_its_keys_count_for_it_and_for_what_lies_below(
    reader: Machine, builder: Machine
) -> None:
    rule = '\n[[tool.derive.trust.outputs]]\nderivations = ["small layer *"]\nkeys = ["cat"]\n'
    keys = {"ann": public_of(builder, "ann"), "cat": reader.key("cat")}
    reader.trust(keys, more=rule)
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert "small layer hello" in done.err
    assert "substituted  small  0" in done.err  # as its inputs turned out, ann's word is enough for it
    assert "substituted  hello" not in done.err
    assert "substituted  small layer hello" not in done.err


def test_what_a_rule_of_its_own_names_is_taken_by_that_also_below_what_a_stricter_one_names(
    reader: Machine, builder: Machine
) -> None:
    rules = "".join(
        f'\n[[tool.derive.trust.outputs]]\nderivations = ["{name}"]\nkeys = ["{key}"]\n'
        for name, key in (("image:*", "cat"), ("small layer *", "cat"), ("hello", "ann"))
    )
    reader.trust({"ann": public_of(builder, "ann"), "cat": reader.key("cat")}, more=rules)
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert "substituted  hello" in done.err
    assert "substituted  small layer hello" not in done.err


def test_an_edit_that_changes_no_output_builds_one_step_and_takes_all_above_it(reader: Machine) -> None:
    """Early cutoff works across machines: the script moved, its output did not, and the layers are ann's."""
    reader.edit(GREETING, "hello is built", "hello was built")
    done = reader.here("image")
    assert done.code == 0
    rows = [line.split("  ") for line in done.err.splitlines()]
    assert {row[1] for row in rows if row[0].startswith("built ")} == {"hello", "small"}
    assert {row[1] for row in rows if row[0] == "substituted"} >= {"tools", "hello-patched", "small layer hello"}


def test_a_cache_that_is_down_is_said_once_and_the_build_goes_on(reader: Machine, builder: Machine) -> None:
    """Case R2: a binary cache that is down."""
    reader.forget_cache()
    reader.cache("http://127.0.0.1:9")
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert done.err.count("cache team is not used in this run") == 1
    assert came(reader) == 0


def test_a_cache_that_hangs_is_said_once_and_the_build_goes_on(
    reader: Machine, builder: Machine, proxy: FaultProxy, repository: str
) -> None:
    """Case R2: a binary cache that hangs."""
    reader.forget_cache()
    reader.cache(proxy.url, repository=repository, patience=1)
    proxy.add(r".", "hang", times=99)
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert done.err.count("cache team is not used in this run: it does not answer") == 1


@pytest.mark.parametrize("fault", ["status", "truncate", "flip"])
def test_a_cache_that_breaks_or_alters_what_it_serves_deceives_nobody(
    reader: Machine, builder: Machine, proxy: FaultProxy, fault: str
) -> None:
    proxy.add(r"GET /v2/team/[^/]+/blobs/", fault, at=40, times=99, skip=1)  # type: ignore[arg-type]
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert done.err.count("cache team is not used in this run") == 1
    assert came(reader) == 0


def test_a_tag_that_names_another_output_is_not_taken(
    reader: Machine, builder: Machine, running: Registry, repository: str
) -> None:
    planned = json.loads(builder.here("show", "small", "--json").out)["body"]["outputs"]
    tags = {name: text.replace(":sha256:", "-") for name, text in planned.items()}
    other = got(running, repository, f"manifests/{tags['config']}")
    running.push_manifest(repository, tags["out"], MANIFEST, other)
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert done.err.count("cache team is not used in this run: it serves what it must not") == 1


def test_an_output_that_is_gone_from_the_cache_is_built_and_the_others_are_taken(
    reader: Machine, builder: Machine, proxy: FaultProxy
) -> None:
    proxy.add(OUTPUT, "status", times=1, status=404)
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert done.err.count("cache team no longer holds all that its builders vouch for") == 1
    assert came(reader) > 0


def test_a_lying_builder_is_an_alarm_and_nothing_of_it_is_taken(
    reader: Machine, builder: Machine, proxy: FaultProxy, repository: str
) -> None:
    ann = public_of(builder, "ann")
    thief = liar(reader, "cat", proxy.url, repository)
    reader.trust({"ann": ann, "cat": public_of(thief, "cat")})
    done = reader.here("image")
    assert (done.code, done.out) == (1, "")
    assert "hello: trusted builders contradict each other" in done.err
    assert "ann" in done.err
    assert "cat" in done.err
    assert "derive key revoke KEY --record --why TEXT" in done.err
    status = reader.here("cache", "status")
    assert status.code == 1
    assert "ALARM  hello: two things are said of" in status.out
    assert "derive key revoke KEY --record --why TEXT" in status.err
    # The key is known to be stolen: what it signed counts no more, and the rest goes on.
    reader.here("key", "revoke", "cat")
    again = reader.here("image")
    assert again.answer == digest_of(builder)
    assert reader.here("cache", "status").code == 0


def test_pulling_what_contradicts_what_was_built_here_is_the_alarm_that_status_tells(
    reader: Machine, proxy: FaultProxy, repository: str
) -> None:
    """Who built a step before a key lied of it builds nothing more: reading the logs is what tells."""
    assert reader.here("image", "--no-cache").code == 0
    thief = liar(reader, "cat", proxy.url, repository)
    reader.trust({"cat": public_of(thief, "cat")})
    pulled = reader.here("cache", "pull")
    assert (pulled.code, pulled.out) == (1, "")
    status = reader.here("cache", "status")
    assert status.code == 1
    (told,) = (part for part in status.out.split("\n\n") if part.startswith("ALARM"))
    assert told.strip() in pulled.err
    assert "  this machine  " in told
    assert "derive key revoke KEY --record --why TEXT" in pulled.err
    body = json.loads(reader.here("cache", "pull", "--json").out)["body"]
    assert [one["who"] for one in body["conflicts"][0]["said"]] == ["this machine", "cat"]
    assert reader.here("image").code == 0  # nothing of it is built any more, so nothing else would have told


def test_an_alarm_that_was_read_before_is_told_also_when_no_cache_answers(
    reader: Machine, proxy: FaultProxy, repository: str
) -> None:
    assert reader.here("image", "--no-cache").code == 0
    thief = liar(reader, "cat", proxy.url, repository)
    reader.trust({"cat": public_of(thief, "cat")})
    assert reader.here("cache", "pull").code == 1
    proxy.add(".", "status", times=99, status=503)
    pulled = reader.here("cache", "pull")
    assert (pulled.code, "ALARM  hello: two things are said of" in pulled.err) == (1, True)


def test_pulling_without_a_cache_or_a_key_says_which_of_the_two_is_missing(reader: Machine) -> None:
    reader.trust({})
    pulled = reader.here("cache", "pull")
    assert pulled.code == 2
    assert "error: pyproject.toml: tool.derive.trust.keys: the project trusts no key" in pulled.err
    assert "no cache is named" not in pulled.err
    reader.forget_cache()
    pulled = reader.here("cache", "pull")
    assert (pulled.code, "error: no cache is named" in pulled.err) == (2, True)
    assert "trusts no key" not in pulled.err


def test_a_thief_of_one_key_of_three_gets_nothing_taken_where_two_must_agree(
    reader: Machine, builder: Machine, proxy: FaultProxy, repository: str
) -> None:
    thief = another_builder(reader, "cat", proxy.url, repository)
    thief.edit("derivations/small/build.sh", "hello is built", "hello was stolen")
    assert thief.here("image").code == 0
    pretend(thief)
    assert thief.here("cache", "push", "--key", "cat").code == 0
    keys = {"ann": public_of(builder, "ann"), "cat": public_of(thief, "cat"), "ben": reader.key("ben")}
    reader.trust(keys, threshold=2)
    reader.edit("derivations/small/build.sh", "hello is built", "hello was stolen")
    done = reader.here("image")
    assert done.code == 0, done.err
    assert "hello came out otherwise than cat alone says" in done.err
    assert "substituted  hello  " not in done.err


def test_what_is_built_here_and_contradicts_enough_keys_is_not_recorded(
    reader: Machine, proxy: FaultProxy, repository: str
) -> None:
    thief = liar(reader, "cat", proxy.url, repository)
    reader.trust({"cat": public_of(thief, "cat")})
    reader.here("cache", "pull")
    # Its bytes cannot be had, so the step is built: and comes out otherwise.
    proxy.add(OUTPUT, "status", times=99, status=404)
    done = reader.here("image")
    assert done.code == 1
    assert "hello: this machine and trusted builders contradict each other" in done.err
    with LocalStore(reader.store) as store:
        for _, _, resolved, _ in store.database.find_derivations("hello"):
            assert store.database.realisation(resolved) is None


def test_after_a_revocation_what_came_by_that_key_is_made_anew(reader: Machine, builder: Machine) -> None:
    assert reader.here("image").answer == digest_of(builder)
    assert came(reader) == 1
    reader.here("key", "revoke", "ann", "--record", "--why", "the laptop was stolen")
    status = reader.here("cache", "status")
    assert "1 output came by the word of keys that count no longer" in status.err
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert "built 11/11" in done.err
    assert came(reader) == 0


@pytest.mark.parametrize("flags", [(), ("--no-cache",), ("--check",)])
def test_after_a_revocation_what_was_built_here_upon_that_key_s_lie_is_built_anew(
    reader: Machine, builder: Machine, proxy: FaultProxy, repository: str, flags: tuple[str, ...]
) -> None:
    thief = liar(reader, "cat", proxy.url, repository, "hello")
    reader.trust({"cat": public_of(thief, "cat")})
    forged = digest_of(reader)
    assert forged != digest_of(builder)
    reader.here("key", "revoke", "cat")
    done = reader.here("image", *flags)
    assert done.answer == digest_of(builder)
    assert "substituted" not in done.err
    assert reader.here("image").answer == digest_of(builder)


def test_one_key_has_nothing_taken_below_what_two_must_agree_on(
    reader: Machine, builder: Machine, proxy: FaultProxy, repository: str
) -> None:
    thief = liar(reader, "cat", proxy.url, repository, "hello")
    rule = '\n[[tool.derive.trust.outputs]]\nderivations = ["image:small"]\nthreshold = 2\n'
    reader.trust({"cat": public_of(thief, "cat"), "ben": reader.key("ben")}, more=rule)
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert "hello came out otherwise than cat alone says" in done.err


@pytest.mark.parametrize("flags", [(), ("--record", "--why", "stolen")])
def test_what_an_honest_key_signed_upon_a_lie_falls_with_the_liar(
    reader: Machine, builder: Machine, proxy: FaultProxy, running: Registry, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    repository = f"team/{tmp_path.name.replace('_', '-').lower()}-alone"
    thief = liar(reader, "eve", proxy.url, repository, "hello")
    eve = public_of(thief, "eve")
    honest = another_builder(reader, "cat", proxy.url, repository, {"eve": eve})
    forged = digest_of(honest)
    assert forged != digest_of(builder)
    assert honest.here("cache", "push", "--key", "cat").code == 0
    reader.forget_cache()
    reader.cache(proxy.url, repository=repository)
    reader.trust({"eve": eve, "cat": public_of(honest, "cat")})
    assert digest_of(reader) == forged
    assert came(reader) == 1  # the image alone, by cat's word
    reader.here("key", "revoke", "eve", *flags)
    assert "small" in reader.here("plan").out
    assert reader.here("push", f"{running.host}/lab/small", "small").code == 2
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert "substituted  hello" not in done.err


def test_a_layer_found_by_one_key_s_word_is_not_taken_below_what_two_must_agree_on(
    reader: Machine, builder: Machine, proxy: FaultProxy, tmp_path: Path
) -> None:
    repository = f"team/{tmp_path.name.replace('_', '-').lower()}-alone"
    thief = liar(reader, "eve", proxy.url, repository, "hello")
    keys = {"eve": public_of(thief, "eve")}
    for name in ("cat", "dan"):
        one = another_builder(reader, name, proxy.url, repository, {"eve": keys["eve"]})
        assert digest_of(one) != digest_of(builder)
        assert one.here("cache", "push", "--key", name).code == 0
        keys[name] = public_of(one, name)
    reader.forget_cache()
    reader.cache(proxy.url, repository=repository)
    reader.trust(keys)
    assert digest_of(reader) != digest_of(builder)
    rule = '\n[[tool.derive.trust.outputs]]\nderivations = ["image:small"]\nthreshold = 2\n'
    reader.trust(keys, more=rule)
    assert digest_of(reader) == digest_of(builder)


def test_a_key_that_is_revoked_again_gets_another_record_for_an_earlier_day_alone(reader: Machine) -> None:
    reader.trust({"ben": reader.key("ben")})
    again = ("key", "revoke", "ben", "--record", "--why", "stolen")
    assert [reader.here(*again).code, reader.here(*again).code] == [0, 0]
    assert len(list((reader.root / "records/keys").iterdir())) == 1
    assert "a record says so already: records/keys/0001-ben.json" in reader.here(*again).err
    assert reader.here(*again, "--since", "2026-01-02").code == 0
    assert len(list((reader.root / "records/keys").iterdir())) == 2


def test_what_rests_on_a_key_that_counts_no_more_is_told_and_not_signed(
    reader: Machine, builder: Machine, proxy: FaultProxy, repository: str, tmp_path: Path
) -> None:
    thief = liar(reader, "cat", proxy.url, repository, "hello")
    reader.trust({"cat": public_of(thief, "cat"), "ben": reader.key("ben")})
    forged = digest_of(reader)
    reader.here("key", "revoke", "cat")
    for command in (("show", "small"), ("store", "path", "small"), ("sbom", "small"), ("provenance", "small")):
        told = reader.here(*command)
        assert told.code == 0
        assert "note: it rests on what counts no more: hello, by the word of cat" in told.err, command
    file = str(tmp_path / "small.closure")
    signing = [("attest", "small"), ("provenance", "small"), ("store", "export", "small", "--output", file)]
    for words in signing:
        refused = reader.here(*words, "--key", "ben")
        assert refused.code == 1, words
        assert "by the word of keys that count no more" in refused.err
    assert reader.here("attest", forged, "--key", "ben").code == 1
    assert digest_of(reader) == digest_of(builder)
    assert "note" not in reader.here("show", "small").err
    assert reader.here("attest", "small", "--key", "ben").code == 0


def test_a_check_of_what_was_built_before_hears_the_alarm(
    reader: Machine, builder: Machine, proxy: FaultProxy, repository: str
) -> None:
    thief = liar(reader, "eve", proxy.url, repository, "hello")
    reader.trust({"eve": public_of(thief, "eve")})
    assert reader.here("image", "--no-cache").answer == digest_of(builder)
    reader.here("cache", "pull")
    done = reader.here("image", "--check")
    assert (done.code, "hello: this machine and trusted builders contradict each other" in done.err) == (1, True)
    assert reader.here("image", "--check", "--no-cache").code == 0


def test_without_caches_what_is_built_is_compared_with_nothing_that_came(
    reader: Machine, builder: Machine, proxy: FaultProxy, repository: str
) -> None:
    thief = liar(reader, "cat", proxy.url, repository, "hello")
    reader.trust({"cat": public_of(thief, "cat")})
    assert digest_of(reader) != digest_of(builder)
    checked = reader.here("image", "--check")
    assert (checked.code, "hello: this machine and trusted builders contradict" in checked.err) == (1, True)
    done = reader.here("image", "--no-cache")
    assert done.answer == digest_of(builder)
    assert "hello: what had come from team by the word of cat was something else: replaced" in done.err


def test_without_caches_what_came_before_is_built_here(reader: Machine, builder: Machine) -> None:
    assert reader.here("image").answer == digest_of(builder)
    assert came(reader) == 1
    done = reader.here("image", "--no-cache")
    assert done.answer == digest_of(builder)
    assert "built 11/11" in done.err
    assert came(reader) == 0


def test_nothing_that_was_taken_is_vouched_for(reader: Machine, builder: Machine) -> None:
    reader.key("ben")
    assert reader.here("image").answer == digest_of(builder)
    done = reader.here("cache", "push", "--key", "ben")
    assert done.code == 2
    assert "nothing of it was built here" in done.err


def test_a_check_builds_what_had_come_from_a_cache(reader: Machine, builder: Machine) -> None:
    assert reader.here("image").answer == digest_of(builder)
    assert came(reader) == 1
    done = reader.here("image", "--check")
    assert "checked 11 steps: no differences" in done.err
    assert came(reader) == 0


def test_without_caches_nothing_is_asked(reader: Machine, builder: Machine, proxy: FaultProxy) -> None:
    assert reader.here("image", "--no-cache").answer == digest_of(builder)
    assert not proxy.seen
    assert came(reader) == 0


def test_two_builders_who_agree_reach_a_threshold_of_two(
    reader: Machine, builder: Machine, proxy: FaultProxy, repository: str
) -> None:
    second = another_builder(reader, "cat", proxy.url, repository, {"ann": public_of(builder, "ann")})
    assert second.here("image", "--no-cache").code == 0
    pushed = second.here("cache", "push", "--key", "cat")
    assert "pushed 0 outputs" in pushed.err  # ann's bytes are there: what cat adds is a word
    reader.trust({"ann": public_of(builder, "ann"), "cat": public_of(second, "cat")}, threshold=2)
    done = reader.here("image")
    assert done.answer == digest_of(builder)
    assert "vouched for by ann, cat" in reader.here("show", "small").out


def test_a_log_that_goes_back_is_an_alarm_and_the_cache_is_not_used(
    reader: Machine, builder: Machine, running: Registry, proxy: FaultProxy, repository: str
) -> None:
    assert reader.here("cache", "pull").answer == "11"
    key = PublicKey.parse(public_of(builder, "ann")).id.hex[:32]
    proxy.add(LOG_TAG + key, "status", times=99, status=404)
    done = reader.here("cache", "pull")
    assert done.code == 1
    status = reader.here("cache", "status")
    assert status.code == 1
    assert "ALARM  team: ann: the log goes back" in status.out
    built = reader.here("image")
    assert built.answer == digest_of(builder)
    assert built.err.count("cache team is not used in this run") == 1
    reader.forget_cache()
    reader.cache(running.url, repository=repository)
    assert reader.here("cache", "pull").answer == "11"


def test_two_views_of_one_log_are_found_by_what_another_key_saw(
    reader: Machine, builder: Machine, running: Registry, repository: str
) -> None:
    """A registry shows ben one log of ann's and cat another: cat's own entry says what cat was shown."""
    ann = public_of(builder, "ann")
    witness = another_builder(reader, "cat", running.url, repository, {"ann": ann})
    assert witness.here("image", "--no-cache").code == 0
    assert witness.here("cache", "push", "--key", "cat").code == 0
    # Ann's key has signed another first entry elsewhere; the registry serves that in the place of what cat saw.
    builder.cache(running.url, repository=f"{repository}-twin")
    assert builder.here("cache", "push", "--key", "ann").code == 0
    builder.forget_cache()
    tag = f"log-{PublicKey.parse(ann).id.hex[:32]}"
    forged = got(running, f"{repository}-twin", f"manifests/{tag}")
    for layer in json.loads(forged)["layers"]:
        data = got(running, f"{repository}-twin", f"blobs/{layer['digest']}")
        running.push_blob(repository, layer["digest"], data)
    running.push_manifest(repository, tag, MANIFEST, forged)
    reader.trust({"ann": ann, "cat": public_of(witness, "cat")})
    assert reader.here("cache", "pull").code == 1
    status = reader.here("cache", "status")
    assert status.code == 1
    assert "ALARM  team: ann: cat was shown another log" in status.out
    assert reader.here("image").answer == digest_of(builder)
    assert came(reader) == 0


def test_entries_chain_and_are_signed_by_the_log_s_own_key(
    builder: Machine, running: Registry, repository: str
) -> None:
    builder.cache(running.url, repository=repository)
    builder.edit(GREETING, "hello is built", "hello is built again")
    try:
        assert builder.here("image").code == 0
        assert builder.here("cache", "push", "--key", "ann").code == 0
    finally:
        builder.edit(GREETING, "hello is built again", "hello is built")
        builder.forget_cache()
    key = PublicKey.parse(public_of(builder, "ann"))
    piece = json.loads(got(running, repository, f"manifests/log-{key.id.hex[:32]}"))
    blobs = [got(running, repository, f"blobs/{layer['digest']}") for layer in piece["layers"]]
    first, second = (read_entry(data, key) for data in blobs)
    assert (first.sequence, second.sequence) == (1, 2)
    assert second.previous == Digest.parse(piece["layers"][0]["digest"])
    assert len(first.claims) == 11
    # Only what is new is signed for: the script, whose output is the same, and the image, whose label moved.
    assert {claim.builder for claim in second.claims} == {"script/1", "image/1"}


def test_a_push_that_was_cut_off_goes_on_and_sends_little_again(
    builder: Machine, running: Registry, repository: str
) -> None:
    empty = f"{repository}-empty"
    with FaultProxy(running.host) as proxy:
        builder.cache(proxy.url, "cut", repository=empty)
        try:
            proxy.add(r"PUT /v2/team/[^/]+/manifests/(nar|flat|facts)-", "status", times=99, status=403)
            failed = builder.here("cache", "push", "--key", "ann")
            assert failed.code == 3
            assert "the outputs could not be pushed" in failed.err
            sent = proxy.sent("PUT|PATCH")
            proxy.forget()
            done = builder.here("cache", "push", "--key", "ann")
            assert done.code == 0, done.err
            assert proxy.sent("PUT|PATCH") < sent / 10
        finally:
            builder.forget_cache("cut")


def test_sources_that_were_pushed_spare_a_site_the_upstreams(
    builder: Machine, small: Small, proxy: FaultProxy, reader: Machine, repository: str
) -> None:
    builder.cache(proxy.url, "full", repository=repository)
    try:
        assert builder.here("cache", "push", "full", "--key", "ann", "--sources").code == 0
    finally:
        builder.forget_cache("full")
    asked = len(small.server.paths())
    reader.edit("derivations/small.toml", '"written by the declaration\\n"', '"written by ben\\n"')
    done = reader.here("image")
    assert done.code == 0, done.err
    assert len(small.server.paths()) == asked


def test_caches_stand_in_the_user_s_settings_and_never_in_the_project(reader: Machine) -> None:
    file = reader.home / "derive" / "config.toml"
    file.write_text("# mine\n" + file.read_text() + "\n[mirrors]\npython = 'http://127.0.0.1:1/simple'\n")
    assert reader.here("cache", "add", "http://127.0.0.1:5000/other/place").answer == "other-place"
    reader.forget_cache("other-place")
    reader.forget_cache()
    text = file.read_text()
    assert text.startswith("# mine\n")
    assert "caches" not in text
    assert "[mirrors]" in text
    assert reader.here("cache", "remove", "team").code == 2


def test_a_registry_that_fails_when_it_is_asked_again_does_not_escape_the_alarm(
    reader: Machine, builder: Machine, running: Registry, proxy: FaultProxy, repository: str
) -> None:
    """Cat saw all of ann's log; ben is shown none of it, and an error at the second look."""
    ann = public_of(builder, "ann")
    witness = another_builder(reader, "cat", running.url, repository, {"ann": ann})
    assert witness.here("image", "--no-cache").code == 0
    assert witness.here("cache", "push", "--key", "cat").code == 0
    reader.trust({"ann": ann, "cat": public_of(witness, "cat")})
    tag = LOG_TAG + PublicKey.parse(ann).id.hex[:32]
    proxy.add(tag, "status", times=1, status=404)
    proxy.add(tag, "status", times=99, status=503)
    assert reader.here("cache", "pull").code == 3
    proxy.forget()
    proxy.add(tag, "status", times=99, status=404)
    assert reader.here("cache", "pull").code == 1
    assert "ALARM  team: ann: entries that cat saw are not shown" in reader.here("cache", "status").out
    assert reader.here("image").answer == digest_of(builder)
    assert came(reader) == 0
