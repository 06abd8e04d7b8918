"""Sealing, the key that seals, and the private files that hold keys."""

import base64
import os
import secrets
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from scrubjay.errors import ConfigurationError, HomeUnusable, KeyFileExposed, SecretUnreadable
from scrubjay.settings import Settings
from scrubjay.storage.secrets import (
    SecretBox,
    is_sealed,
    open_secret_box,
    read_private_file,
    write_private_file,
)

CONTEXT = "plan:cplan_1:password"


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.fixture
def box() -> SecretBox:
    return SecretBox(secrets.token_bytes(32))


@pytest.mark.parametrize("plaintext", ["", "hunter2", "Grüße, 世界 🐦", "x" * 100_000])
def test_a_sealed_text_opens_in_its_own_place(box: SecretBox, plaintext: str) -> None:
    sealed = box.seal(plaintext, context=CONTEXT)
    assert box.unseal(sealed, context=CONTEXT) == plaintext
    assert is_sealed(sealed)


def test_a_sealed_text_names_its_version_and_key_and_hides_the_rest(box: SecretBox) -> None:
    sealed = box.seal("hunter2", context=CONTEXT)
    version, key_id, body = sealed.split(".")
    assert (version, key_id) == ("v1", box.key_id)
    assert b"hunter2" not in base64.urlsafe_b64decode(body + "==")


def test_the_same_text_is_never_sealed_twice_alike(box: SecretBox) -> None:
    assert len({box.seal("hunter2", context=CONTEXT) for _ in range(100)}) == 100


def test_a_sealed_text_does_not_open_in_another_place(box: SecretBox) -> None:
    sealed = box.seal("hunter2", context=CONTEXT)
    with pytest.raises(SecretUnreadable):
        box.unseal(sealed, context="plan:cplan_2:password")


def test_a_sealed_text_does_not_open_with_another_key_and_both_keys_are_named(box: SecretBox) -> None:
    other = SecretBox(secrets.token_bytes(32))
    with pytest.raises(SecretUnreadable, match=f"{box.key_id}.*{other.key_id}"):
        other.unseal(box.seal("hunter2", context=CONTEXT), context=CONTEXT)


def test_a_forged_key_id_does_not_help(box: SecretBox) -> None:
    other = SecretBox(secrets.token_bytes(32))
    sealed = box.seal("hunter2", context=CONTEXT).replace(box.key_id, other.key_id)
    with pytest.raises(SecretUnreadable, match="altered"):
        other.unseal(sealed, context=CONTEXT)


def test_no_single_altered_character_goes_unnoticed(box: SecretBox) -> None:
    sealed = box.seal("hunter2", context=CONTEXT)
    # The last character may hold bits that are not part of any byte.
    for position in range(len(sealed) - 1):
        altered = sealed[:position] + ("A" if sealed[position] != "A" else "B") + sealed[position + 1 :]
        with pytest.raises(SecretUnreadable):
            box.unseal(altered, context=CONTEXT)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "v1",
        "v1..",
        "v1.00000000.",
        "v1.00000000.AAAA",
        "v2.00000000." + "A" * 60,
        "v1.0000000g." + "A" * 60,
    ],
)
def test_text_that_is_not_sealed_is_told_apart(box: SecretBox, text: str) -> None:
    assert not is_sealed(text)
    with pytest.raises(SecretUnreadable, match="not a sealed secret"):
        box.unseal(text, context=CONTEXT)


@pytest.mark.parametrize("length", range(38, 44))
def test_a_body_of_any_length_is_refused_and_never_crashes(box: SecretBox, length: int) -> None:
    with pytest.raises(SecretUnreadable):
        box.unseal(f"v1.{box.key_id}.{'A' * length}", context=CONTEXT)


def test_the_representation_does_not_show_the_key() -> None:
    key = secrets.token_bytes(32)
    box = SecretBox(key)
    assert repr(box) == f"SecretBox(key_id='{box.key_id}')"
    assert key.hex() not in repr(vars(box))
    assert box.key_id not in key.hex()


def test_the_first_start_makes_a_private_key_file_that_later_starts_use(settings: Settings) -> None:
    sealed = open_secret_box(settings).seal("hunter2", context=CONTEXT)
    path = settings.home / "secret.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(base64.b64decode(path.read_text())) == 32
    assert open_secret_box(settings).unseal(sealed, context=CONTEXT) == "hunter2"
    assert names_in(settings.home) == ["secret.key"]


def test_the_data_folder_is_made_when_it_is_missing(home: Path) -> None:
    deep = home / "not" / "yet"
    open_secret_box(Settings(home=deep))
    assert (deep / "secret.key").exists()


def test_a_key_in_the_settings_wins_and_no_file_is_made(home: Path) -> None:
    key = secrets.token_bytes(32)
    box = open_secret_box(Settings(home=home, secret_key=base64.b64encode(key).decode()))
    assert box.key_id == SecretBox(key).key_id
    assert names_in(home) == []


@pytest.mark.parametrize(
    "secret_key",
    ["not base64 at all!", base64.b64encode(b"x" * 31).decode(), base64.b64encode(b"x" * 33).decode(), "Zürich"],
)
def test_a_malformed_key_in_the_settings_is_explained_and_not_shown(home: Path, secret_key: str) -> None:
    with pytest.raises(ConfigurationError, match=r"SCRUBJAY_SECRET_KEY.*base64 of 32 bytes") as failure:
        open_secret_box(Settings(home=home, secret_key=secret_key))
    assert secret_key not in str(failure.value)
    assert failure.value.__cause__ is None
    assert failure.value.__context__ is None


@pytest.mark.parametrize("content", [b"", b"short", b"\xff\xfe\x00"])
def test_a_malformed_key_file_is_explained_and_kept(settings: Settings, content: bytes) -> None:
    path = settings.home / "secret.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ConfigurationError, match=str(path)):
        open_secret_box(settings)
    assert path.read_bytes() == content


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o620])
def test_a_key_file_open_to_others_is_refused_with_the_command_that_closes_it(settings: Settings, mode: int) -> None:
    open_secret_box(settings)
    path = settings.home / "secret.key"
    path.chmod(mode)
    with pytest.raises(KeyFileExposed, match=f"chmod 600 {path}"):
        open_secret_box(settings)


def test_a_data_folder_that_cannot_be_used_is_explained(home: Path) -> None:
    (home / "file").write_text("in the way")
    with pytest.raises(HomeUnusable, match=r"secret\.key"):
        open_secret_box(Settings(home=home / "file" / "home"))


def test_processes_that_start_together_agree_on_one_key(home: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from scrubjay.settings import Settings;"
        "from scrubjay.storage.secrets import open_secret_box;"
        "sys.stdin.readline(); print(open_secret_box(Settings(home=Path(sys.argv[1]))).key_id)"
    )
    command = [sys.executable, "-c", program, str(home)]
    starters = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("go\n")
        starter.stdin.flush()
    key_ids = {starter.communicate()[0].strip() for starter in starters}
    assert key_ids == {open_secret_box(Settings(home=home)).key_id}
    assert names_in(home) == ["secret.key"]


def test_a_private_file_is_private_complete_and_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "admin.key"
    write_private_file(path, "first")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        write_private_file(path, "second")
    assert read_private_file(path) == "first"
    assert names_in(tmp_path) == ["admin.key"]


def test_a_private_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private_file(tmp_path / "key", "content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_a_private_file_does_not_follow_a_link_that_was_planted(tmp_path: Path) -> None:
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        write_private_file(tmp_path / "key", "content")
    assert not (tmp_path / "elsewhere").exists()


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_private_file(tmp_path / "key", "content")
    assert names_in(tmp_path) == []


def test_a_missing_private_file_is_reported_as_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_private_file(tmp_path / "absent")


def test_a_private_file_open_to_others_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("content")
    path.chmod(0o644)
    with pytest.raises(KeyFileExposed, match=r"mode 0644.*chmod 600"):
        read_private_file(path)
