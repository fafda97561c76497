# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path

import pytest

from derive.canonical import sha256
from derive.trust.keys import PublicKey, SigningKey, from_base64
from support.require import skip_or_fail

# RFC 8032, section 7.1, tests 1 and 2
SEED_1 = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC_1 = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
SIGNATURE_1 = bytes.fromhex(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
)
SEED_2 = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
SIGNATURE_2 = bytes.fromhex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)


def test_keys_and_signatures_are_those_of_the_standard() -> None:
    assert SigningKey(SEED_1).public == PublicKey(PUBLIC_1)
    assert SigningKey(SEED_1).sign(b"") == SIGNATURE_1
    assert SigningKey(SEED_2).sign(b"\x72") == SIGNATURE_2


def test_a_signature_is_a_function_of_key_and_message() -> None:
    assert SigningKey(SEED_1).sign(b"text") == SigningKey(SEED_1).sign(b"text")


def test_the_id_is_the_sha256_of_the_raw_public_key() -> None:
    assert PublicKey(PUBLIC_1).id == sha256(PUBLIC_1)


def test_a_signature_holds_for_its_key_and_message_alone() -> None:
    key = PublicKey(PUBLIC_1)
    assert key.verifies(SIGNATURE_1, b"")
    assert not key.verifies(SIGNATURE_1, b"x")
    assert not key.verifies(SIGNATURE_2, b"")
    assert not key.verifies(SIGNATURE_1[:-1], b"")
    assert not SigningKey(SEED_2).public.verifies(SIGNATURE_1, b"")


@pytest.mark.parametrize("bit", range(0, 512, 37))
def test_a_signature_with_one_bit_changed_does_not_hold(bit: int) -> None:
    changed = bytearray(SIGNATURE_1)
    changed[bit // 8] ^= 1 << bit % 8
    assert not PublicKey(PUBLIC_1).verifies(bytes(changed), b"")


def test_a_public_key_reads_back_from_its_text() -> None:
    key = SigningKey(SEED_1).public
    assert str(key).startswith("ed25519:")
    assert PublicKey.parse(str(key)) == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ed25519:",
        "ed25519:short",
        base64.b64encode(PUBLIC_1).decode(),
        "rsa:" + base64.b64encode(PUBLIC_1).decode(),
        "ed25519:" + base64.b64encode(PUBLIC_1[:31]).decode(),
        "ed25519:" + base64.b64encode(PUBLIC_1 + b"x").decode(),
        "ed25519:" + base64.b64encode(PUBLIC_1).decode().rstrip("="),
        "ed25519:" + base64.b64encode(PUBLIC_1).decode() + "\n",
        "ed25519: " + base64.b64encode(PUBLIC_1).decode(),
        "ed25519:" + base64.urlsafe_b64encode(b"\xff" * 32).decode(),
        "ed25519:\u00e9" + base64.b64encode(PUBLIC_1).decode()[1:],
    ],
)
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"key|base64"):
        PublicKey.parse(text)


def test_base64_has_one_way_to_write_the_same_bytes() -> None:
    assert from_base64("AA==") == b"\0"
    with pytest.raises(ValueError, match="as it is written"):
        from_base64("AB==")


def test_no_text_form_shows_a_private_key() -> None:
    key = SigningKey(SEED_1)
    for shown in (repr(key), str(key), f"{key}"):
        assert SEED_1.hex() not in shown
        assert repr(SEED_1) not in shown


def test_a_private_key_reads_back_from_its_file() -> None:
    assert SigningKey.from_pem(SigningKey(SEED_1).to_pem()) == SigningKey(SEED_1)


def openssl(*arguments: str, cwd: Path | None = None) -> bytes:
    if shutil.which("openssl") is None:
        skip_or_fail("openssl is not installed (Debian package openssl)")
    return subprocess.run(["openssl", *arguments], cwd=cwd, capture_output=True, check=True).stdout


def test_openssl_reads_the_key_and_verifies_the_signature(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(SigningKey(SEED_1).to_pem())
    (tmp_path / "text").write_bytes(b"a text")
    (tmp_path / "signature").write_bytes(SigningKey(SEED_1).sign(b"a text"))
    options = ("-verify", "-inkey", "key", "-rawin", "-in", "text", "-sigfile", "signature")
    assert b"Verified Successfully" in openssl("pkeyutl", *options, cwd=tmp_path)


@pytest.mark.parametrize(
    "options",
    [["genpkey", "-algorithm", "ed448"], ["genpkey", "-algorithm", "ed25519", "-aes256", "-pass", "pass:word"]],
)
def test_a_private_key_of_another_kind_or_with_a_passphrase_is_refused(options: list[str]) -> None:
    data = openssl(*options)
    with pytest.raises(ValueError, match="key"):
        SigningKey.from_pem(data)


@pytest.mark.parametrize("data", [b"", b"text", b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"])
def test_what_is_no_private_key_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="PKCS"):
        SigningKey.from_pem(data)
