# SPDX-License-Identifier: Apache-2.0
"""One run's caches against a real registry: slow ones, ones that stop, and what came by keys that ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from derive.build.knowledge import Vouch
from derive.build.plan import Action, make_plan, resolved_of
from derive.build.substituting import NotBrought
from derive.cache import rows, substitute
from derive.cache.config import CacheConfig
from derive.cache.entry import Cost, Entry
from derive.cache.rows import Substitution
from derive.cache.sending import Sender
from derive.cache.substitute import Substitutes
from derive.canonical import Digest, sha256
from derive.derivations.model import Derivation, FlatOutput, Output, TreeOutput
from derive.errors import Contradicted, Interrupted
from derive.net.progress import Quiet
from derive.store.database import Realisation
from derive.store.local import LocalStore
from derive.trees.pack import NewFile, add_members
from derive.trust.keys import SigningKey
from derive.trust.policy import Policy
from derive.trust.statement import Claim
from support.faults import FaultProxy
from support.oci_registry import Registry, registry
from support.pushing import noise, remote_of

ANN = SigningKey(b"a" * 32).public
POLICY = Policy(keys={"ann": ANN}, threshold=1)
STEP = Derivation(name="hello", builder="script", version=1, build="any", host="any", arguments={})
BIG = noise(3 << 20)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, real: Registry) -> Output:
    """Return a tree that the registry holds: a large program, small texts, an odd name, an empty folder's neighbour."""
    with LocalStore(tmp_path_factory.mktemp("sender") / "store") as store:
        files = {
            b"bin/big": NewFile(executable=True, chunks=[BIG]),
            b"share/caf\xe9": NewFile(executable=False, chunks=[b"text " * 100]),
            b"share/empty": NewFile(executable=False, chunks=[b""]),
            b"share/same": NewFile(executable=False, chunks=[b"text " * 100]),
        }
        made = TreeOutput(store.add_listing(add_members(store, files.items())))
        remote = remote_of(real.url, "team/cache")
        Sender(store=store, remote=remote, progress=Quiet()).send([made], frozenset())
    return made


@pytest.fixture
def proxy(real: Registry) -> Iterator[FaultProxy]:
    with FaultProxy(real.host) as found:
        yield found


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LocalStore]:
    with LocalStore(tmp_path / "store") as found:
        yield found


def vouch(output: Output, size: int = len(BIG) + 1000) -> Vouch:
    return Vouch(
        resolved=sha256(b"resolved"),
        outputs={"out": output},
        caches=("team",),
        signers=("ann",),
        need=1,
        size_bytes=size,
    )


def caches(url: str, *more: CacheConfig) -> tuple[CacheConfig, ...]:
    return (CacheConfig(name="team", registry=url, repository="team/cache", patience_s=1), *more)


def test_a_tree_comes_whole_with_modes_and_names(store: LocalStore, proxy: FaultProxy, tree: Output) -> None:
    with Substitutes(store, caches(proxy.url), POLICY) as found:
        assert found.bring(STEP, vouch(tree), threading.Event()) == "team"
    listing = store.listing(tree.digest)
    assert sorted(listing) == [b"", b"bin", b"bin/big", b"share", b"share/caf\xe9", b"share/empty", b"share/same"]
    folder = store.folder(tree.digest)
    assert (folder / "bin/big").read_bytes() == BIG
    assert (folder / "bin/big").stat().st_mode & 0o111


def test_a_second_cache_serves_what_the_first_one_lacks(store: LocalStore, proxy: FaultProxy, tree: Output) -> None:
    notes: list[str] = []
    empty = CacheConfig(name="empty", registry=proxy.url, repository="team/empty")
    with Substitutes(store, (empty, *caches(proxy.url)), POLICY, note=notes.append) as found:
        assert found.bring(STEP, vouch(tree), threading.Event()) == "team"
    assert notes == ["cache empty no longer holds all that its builders vouch for"]


def test_a_transfer_that_broke_off_goes_on_where_it_was(store: LocalStore, proxy: FaultProxy, tree: Output) -> None:
    proxy.add(r"GET .*/blobs/", "truncate", at=2 << 20, times=1, skip=1)
    with Substitutes(store, caches(proxy.url), POLICY) as found:
        assert found.bring(STEP, vouch(tree), threading.Event()) == "team"
    assert proxy.got(r"GET .*/blobs/") < len(BIG) * 3 // 2
    assert store.has_tree(tree.digest)


def test_an_output_larger_than_its_signers_say_is_not_brought(
    store: LocalStore, proxy: FaultProxy, tree: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("derive.cache.fetching.sizes_bound", lambda size: size)
    notes: list[str] = []
    with Substitutes(store, caches(proxy.url), POLICY, note=notes.append) as found, pytest.raises(NotBrought):
        found.bring(STEP, vouch(tree, size=1000), threading.Event())
    assert len(notes) == 1
    assert "is larger than its signers say" in notes[0]
    assert not proxy.count(r"GET .*/blobs/")


def test_a_cache_slower_than_building_is_left_for_that_step(
    store: LocalStore, proxy: FaultProxy, tree: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(substitute, "_FIRST_LOOK_NS", 1)
    monkeypatch.setattr(substitute, "_WATCHED_BYTES", 1)
    monkeypatch.setattr(substitute, "limit_ns", lambda *_: 1)
    notes: list[str] = []
    with Substitutes(store, caches(proxy.url), POLICY, note=notes.append) as found:
        with pytest.raises(NotBrought):
            found.bring(STEP, vouch(tree), threading.Event())
        assert not found.is_down
    assert len(notes) == 1
    assert notes[0].startswith("hello is built: from the cache team it would take ")


def test_what_is_stopped_ends_and_leaves_the_store_sound(store: LocalStore, proxy: FaultProxy, tree: Output) -> None:
    fault = proxy.add(r"GET .*/blobs/", "gate-answer", at=1 << 20, skip=1)
    found = Substitutes(store, caches(proxy.url), POLICY)
    ended: list[BaseException] = []

    def bring() -> None:
        try:
            found.bring(STEP, vouch(tree), threading.Event())
        except BaseException as error:  # noqa: BLE001 - it is looked at below
            ended.append(error)

    thread = threading.Thread(target=bring)
    thread.start()
    assert fault.reached.wait(10)
    found.stop()
    fault.gate.set()
    thread.join(10)
    assert [type(one) for one in ended] == [Interrupted]
    assert not store.has_tree(tree.digest)
    # And it goes on: what is asked next opens other connections.
    assert found.bring(STEP, vouch(tree), threading.Event()) == "team"
    found.stop()


def test_what_came_stands_for_as_long_as_keys_enough_count(store: LocalStore) -> None:
    came = Substitution(resolved=sha256(b"r"), cache="team", signers={"ann": ANN.id}, came_s=1)
    rows.note_substituted(store.database, came)
    assert rows.substitutions(store.database) == {came.resolved: came}
    assert Substitutes(store, (), POLICY).standing.stands(STEP, [ANN.id])
    assert not Substitutes(store, (), POLICY, revoked=frozenset((ANN.id,))).standing.stands(STEP, [ANN.id])
    assert not Substitutes(store, (), replace(POLICY, threshold=2)).standing.stands(STEP, [ANN.id])
    assert not Substitutes(store, (), Policy(keys={}, threshold=1)).standing.stands(STEP, [ANN.id])


def test_one_file_is_asked_for_by_its_tag_and_checked(store: LocalStore, real: Registry, tmp_path: Path) -> None:
    with LocalStore(tmp_path / "other") as other:
        with other.blob_writer() as writer:
            writer.write(b"one file")
            output = FlatOutput(writer.commit())
        Sender(store=other, remote=remote_of(real.url, "team/cache"), progress=Quiet()).send([output], frozenset())
    with Substitutes(store, caches(real.url), POLICY) as found:
        found.bring(STEP, vouch(output), threading.Event())
    assert b"".join(store.read_blob(output.digest)) == b"one file"


def said(
    store: LocalStore, outputs: dict[str, Output], size: int = 7, key: str = "ann", derivation: Derivation = STEP
) -> Digest:
    """Have a key's claim about a step among what was read of the cache's log, and return the step's resolved id."""
    resolved = resolved_of(derivation, {}).id
    claim = Claim(resolved=resolved, builder="script/1", outputs=outputs)
    cost = Cost(name=derivation.name, size_bytes=size, duration_ns=5)
    entry = Entry(log="0" * 32, sequence=1, previous=None, made_s=1, claims=(claim,), costs={resolved: cost})
    place = caches("http://127.0.0.1:9")[0].place
    rows.add_entries(store.database, place, BOTH.keys[key].id, [(sha256(key.encode()), entry)])
    return resolved


def built_here(store: LocalStore, resolved: Digest, output: Output) -> None:
    entry = Realisation(
        resolved=resolved,
        outputs={"out": str(output)},
        builder="script/1",
        engine="e",
        host="h",
        duration_ns=1,
        log="",
        built_s=1,
    )
    store.database.add_realisation(entry, STEP.id, STEP.name, STEP.encoded())


CAT = SigningKey(b"c" * 32).public
BOTH = Policy(keys={"ann": ANN, "cat": CAT}, threshold=2)
URL = "http://127.0.0.1:9"
TRUE = TreeOutput(sha256(b"true"))


@pytest.mark.parametrize("outputs", [{}, {"out": FlatOutput(sha256(b"x"))}, {"out": TRUE, "zzz": TRUE}, {"zzz": TRUE}])
def test_outputs_that_a_step_cannot_give_are_refused_once_and_their_key_is_named(
    store: LocalStore, outputs: dict[str, Output]
) -> None:
    notes: list[str] = []
    resolved = said(store, outputs)
    with Substitutes(store, caches(URL), POLICY, note=notes.append) as found:
        for _ in range(2):
            assert found.vouched([(STEP, resolved)]) == {}
        plan = make_plan(STEP, found.knowledge())
    assert [step.action for step in plan.steps] == [Action.BUILD]
    assert notes == ["hello: ann vouches for outputs that such a step cannot give: not taken"]


@pytest.mark.parametrize("outputs", [{}, {"out": FlatOutput(sha256(b"x"))}])
def test_outputs_that_a_step_cannot_give_contradict_what_was_built_here(
    store: LocalStore, outputs: dict[str, Output]
) -> None:
    resolved = said(store, outputs)
    with Substitutes(store, caches(URL), POLICY) as found:
        with pytest.raises(Contradicted) as now:
            found.agree(STEP, resolved, {"out": TRUE})
        built_here(store, resolved, TRUE)
        with pytest.raises(Contradicted) as later:
            make_plan(STEP, found.knowledge())
    for caught in (now, later):
        assert caught.value.exit_code == 1
        assert [line.split()[0] for line in caught.value.detail] == ["resolved", "this", "ann"]


def test_of_too_few_who_say_what_a_step_cannot_give_the_step_built_here_is_used(store: LocalStore) -> None:
    notes: list[str] = []
    resolved = said(store, {})
    built_here(store, resolved, TRUE)
    with Substitutes(store, caches(URL), BOTH, note=notes.append) as found:
        assert found.vouched([(STEP, resolved)]) == {}
    assert notes[0] == "hello came out otherwise than ann alone says: one of the two builders is wrong"


def test_a_size_that_one_of_two_keys_lies_about_keeps_nothing_from_being_taken(store: LocalStore) -> None:
    said(store, {"out": TRUE})
    said(store, {"out": TRUE}, 2**53 - 1, key="cat")
    with Substitutes(store, caches(URL), BOTH) as found:
        plan = make_plan(STEP, found.knowledge())
        assert found.worthwhile(plan)
    assert [(step.action, step.substitute_bytes) for step in plan.steps] == [(Action.SUBSTITUTE, 7)]


def test_what_would_not_fit_by_its_signers_word_is_built_and_said_once(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(substitute, "free_bytes", lambda _: 1 << 30)
    notes: list[str] = []
    said(store, {"out": TRUE}, 2**53 - 1)
    with Substitutes(store, caches(URL), POLICY, note=notes.append) as found:
        assert not found.worthwhile(make_plan(STEP, found.knowledge()))
        plan = make_plan(STEP, found.knowledge())
        assert found.worthwhile(plan)
    assert [step.action for step in plan.steps] == [Action.BUILD]
    assert notes == ["outputs from team would not fit into the store (8.8 TB by the word of ann, 1.1 GB free): built"]
