"""Settings: where each value comes from, and which source wins."""

from ipaddress import ip_network
from pathlib import Path

import pytest

from scrubjay.errors import ConfigurationError
from scrubjay.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_toml(folder: Path, text: str) -> None:
    (folder / "scrubjay.toml").write_text(text)


def refusal() -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_settings()
    assert "\n" not in caught.value.message
    return caught.value.message


def test_without_any_source_the_defaults_make_an_embedded_house(folder: Path) -> None:
    settings = load_settings()
    assert settings.home == folder / ".scrubjay"
    assert (settings.api_host, settings.api_port) == ("127.0.0.1", 8642)
    assert settings.resolved_database_url == f"sqlite:///{folder}/.scrubjay/scrubjay.db"
    assert settings.resolved_blob_url == f"{folder}/.scrubjay/blobs"
    assert settings.is_embedded


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRUBJAY_API_PORT", "9000")
    monkeypatch.setenv("SCRUBJAY_AUTO_MIGRATE", "false")
    monkeypatch.setenv("SCRUBJAY_ALLOWED_PRIVATE_NETWORKS", "10.0.0.0/8, fd00::/8,")
    settings = load_settings()
    assert (settings.api_port, settings.auto_migrate) == (9000, False)
    assert settings.allowed_private_networks == (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRUBJAY_DATABASE_URL", "")
    monkeypatch.setenv("SCRUBJAY_API_PORT", "")
    assert (load_settings().database_url, load_settings().api_port) == (None, 8642)


def test_the_file_is_read(folder: Path) -> None:
    write_toml(folder, 'api_port = 9001\nallowed_private_networks = ["10.0.0.0/8"]\nlog_level = "debug"\n')
    settings = load_settings()
    assert (settings.api_port, settings.log_level) == (9001, "debug")
    assert settings.allowed_private_networks == (ip_network("10.0.0.0/8"),)


def test_the_environment_beats_the_file_and_the_command_line_beats_both(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toml(folder, 'home = "from-file"\napi_port = 9001\nworker_concurrency = 7\n')
    assert load_settings().home == folder / "from-file"
    monkeypatch.setenv("SCRUBJAY_HOME", str(folder / "from-environment"))
    monkeypatch.setenv("SCRUBJAY_API_PORT", "9000")
    settings = load_settings(home=Path("from-command-line"), api_port=None)
    assert settings.home == folder / "from-command-line"
    assert load_settings().home == folder / "from-environment"
    assert (settings.api_port, settings.worker_concurrency) == (9000, 7)


def test_the_home_is_absolute_and_knows_the_users_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder / "me"))
    assert load_settings(home=Path("~/data")).home == folder / "me" / "data"
    settings = load_settings(home=Path("data"))
    monkeypatch.chdir("/")
    assert settings.home == folder / "data"


def test_only_postgresql_serves_several_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRUBJAY_DATABASE_URL", "postgresql://jay@db/house")
    assert not load_settings().is_embedded
    monkeypatch.setenv("SCRUBJAY_DATABASE_URL", "mysql://jay@db/house")
    assert load_settings().is_embedded


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("api_port", "abc"),
        ("api_port", "70000"),
        ("auto_migrate", "perhaps"),
        ("log_level", "loud"),
        ("worker_concurrency", "0"),
        ("shutdown_grace_seconds", "-1"),
        ("allowed_private_networks", "10.0.0.0/8,nonsense"),
        ("database_url", "garbage"),
        ("database_url", "postgresql://jay:hunter2@db:port/x"),
        ("database_url", "postgresql://jay:hun@ter2@db/x"),
    ],
)
def test_a_value_that_is_not_valid_is_refused_by_name_without_being_shown(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"SCRUBJAY_{name.upper()}", value)
    message = refusal()
    assert message.startswith(f"The setting '{name}' (SCRUBJAY_{name.upper()}) is not valid: ")
    assert message.endswith(".")
    assert value not in message
    assert "ter2" not in message


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:////data/x.db",
        "postgresql://jay:p%40ss@db:5432/x?ssl=require",
        "postgres://[::1]/x",
        "mysql://a:b/c@d/e",
    ],
)
def test_a_database_url_that_is_valid_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("SCRUBJAY_DATABASE_URL", url)
    assert load_settings().database_url == url


def test_an_unknown_name_in_the_file_is_refused(folder: Path) -> None:
    write_toml(folder, "api_prot = 1\n")
    assert "scrubjay.toml has an unknown setting 'api_prot'" in refusal()


@pytest.mark.parametrize(("content", "words"), [(b"api_port = ", "not valid TOML"), (b"\xff\xfe", "as UTF-8 text")])
def test_a_file_that_cannot_be_understood_is_refused(folder: Path, content: bytes, words: str) -> None:
    (folder / "scrubjay.toml").write_bytes(content)
    assert refusal().startswith("scrubjay.toml ")
    assert words in refusal()


def test_secrets_do_not_show_when_settings_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SECRET_KEY", "S3_SECRET_ACCESS_KEY", "S3_ACCESS_KEY_ID"):
        monkeypatch.setenv(f"SCRUBJAY_{name}", "hunter2")
    settings = load_settings()
    assert settings.secret_key is not None
    assert settings.secret_key.get_secret_value() == "hunter2"
    assert "hunter2" not in f"{settings!r} {settings}"


def test_settings_cannot_be_changed_after_start() -> None:
    settings = load_settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.api_port = 1  # type: ignore[misc]


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_described_in_a_sentence(name: str) -> None:
    description = Settings.model_fields[name].description or ""
    assert description.endswith(".")
    assert description[0].isupper() or description[0] == "`"
