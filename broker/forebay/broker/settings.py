"""Settings of one broker: where it listens, where its data is, and its bounds.

They come, the later winning, from the defaults, a TOML file, the environment (`FOREBAY_…`, nested by `__`), and the
command line. `[sink_defaults]` holds what a sink has when its creator does not say otherwise. Sizes and durations are
numbers in the unit of their name, or texts such as `10GB` and `5m`.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetPydanticSchema,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import CoreSchema, core_schema
from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
from pydantic_settings import SettingsError as UnreadableVariable

from forebay.broker.core.errors import InvalidSetting
from forebay.broker.core.settings import DEFAULTS, SECOND_US, SETTINGS, Setting, SinkSettings
from forebay.broker.core.shards import SHARD_NAME
from forebay.broker.storage.store.backends import BACKENDS
from forebay.text import LogFormat
from forebay.text.quantities import plain

DEFAULT_PORT: Final = 7461
PORT_DIGITS_MAX: Final = 5
OPEN_METRICS: Final = (
    "every caller of that network could read names and figures of sinks and subscriptions there, without a token and "
    "unencrypted; set metrics_allow_anonymous = true where the network itself keeps strangers out"
)
"""Reason for which a Prometheus endpoint beyond loopback is refused, and what to do."""


class SettingsError(ValueError):
    """A setting of the broker is wrong. The text names it, its value and what is allowed."""


def _core_value(setting: Setting, value: Any) -> Any:
    """Return the core's value of a setting for one of the configuration."""
    if setting.choices is None:
        found = round(value * SECOND_US) if setting.is_duration else value
        if value and not found:  # less than a microsecond is no 0, which has a meaning of its own
            raise setting.error(value)
        return found
    if value not in setting.choices.__members__:
        raise setting.error(value)
    return int(setting.choices[value])


def _sink_settings(given: Any, parse: Callable[[Any], dict[str, Any]]) -> SinkSettings:
    """Return the settings of a sink from those of the configuration, checked."""
    if isinstance(given, SinkSettings):
        return given.checked()
    values = parse(given)
    chosen = [setting for setting in SETTINGS if setting.public_name in values]
    return SinkSettings(**{each.name: _core_value(each, values[each.public_name]) for each in chosen}).checked()


def _number(value: object) -> object:
    """Refuse true and false where a number is expected, which would be 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def _named_settings(source: object, handler: object) -> CoreSchema:
    """Return the schema of settings by their public names, from the table."""
    number = core_schema.no_info_before_validator_function(_number, core_schema.float_schema(allow_inf_nan=False))
    whole = core_schema.no_info_before_validator_function(_number, core_schema.int_schema())
    kinds = {bool: core_schema.bool_schema(), int: whole, float: number}
    fields = {
        each.public_name: core_schema.typed_dict_field(
            number if each.is_duration else kinds.get(type(each.default), core_schema.str_schema()), required=False
        )
        for each in SETTINGS
    }
    named = core_schema.typed_dict_schema(fields, extra_behavior="forbid")
    return core_schema.no_info_wrap_validator_function(_sink_settings, named)


def _named_directory(value: Any) -> Any:
    if value == "":
        raise ValueError("must name a directory")
    return value


def _known_store(name: str) -> str:
    if name not in BACKENDS:
        raise ValueError(f"must be one of {', '.join(sorted(BACKENDS))}")
    return name


def _trace_url(url: str) -> str:
    return _template(url, "trace_id")


def _spark_url(url: str) -> str:
    return _template(url, "application")


def _template(url: str, name: str) -> str:
    """Return the template of a web address, or raise ValueError: no link may run a script."""
    if url and not (url.startswith(("https://", "http://")) and f"{{{name}}}" in url and url.isprintable()):
        raise ValueError(f"must begin with https:// or http:// and contain {{{name}}}")
    return url


def _known_log_format(name: str) -> str:
    if name not in list(LogFormat):
        raise ValueError(f"must be one of {', '.join(LogFormat)}")
    return name


class BrokerSettings(BaseSettings):
    """Settings of a broker."""

    model_config = SettingsConfigDict(env_prefix="FOREBAY_", env_nested_delimiter="__", extra="forbid")

    data_dir: Annotated[Path, BeforeValidator(_named_directory)] = Path("forebay-data")
    """Directory of the store. It is created if it does not exist."""

    store: Annotated[str, AfterValidator(_known_store)] = "rocksdb"
    """Backend of the store. `rocksdb` is the only one."""

    journal: str = ""
    """Directory or address (`s3://`, `gs://`, `az://`, `kafka://`) of the journal of every batch.

    Brokers with the same journal form a shard: one owns it and serves, the others follow it and take over. Each has a
    directory of its own. Empty for a broker that stores its data in its directory alone.
    """

    shard: str = ""
    """Name of the shard of this broker: 1 to 63 of `a-z`, `0-9` and `-`.

    Empty for the only shard of a journal.

    With it `journal` is common to several shards, each of which has its own journal below it, and its own owner and
    followers. Needs `journal`.
    """

    takeover_after_s: float = Field(default=5.0, ge=0.5, le=3_600.0)
    """Silence of the owner of a journal after which a follower takes over.

    The owner reports not ready after 60 % of it without a confirmation. Equal for all brokers of a shard.
    """

    journal_garbage_bytes: int = Field(default=256 << 20, ge=1 << 20, le=1 << 50)
    """Bytes of the journal beside twice the live bytes.

    Checkpoints replace its records before it has more. Followers make them; the owner does where there is no follower.
    """

    journal_batch_bytes: int = Field(default=4 << 20, ge=1, le=1 << 30)
    """Bytes of waiting pages from which a batch is appended to the journal while others are not confirmed.

    At most three are appended at once; fewer bytes wait for the batches before them. A small value shortens that wait,
    at the price of more requests to a bucket.
    """

    advertise: str = ""
    """HOST:PORT at which clients reach this broker, for the journal. Empty for `listen`.

    The fence of an owner names it, and so does the directory of shards. Needed for a `shard` where `listen` is every
    address of the machine.
    """

    listen: str = f"127.0.0.1:{DEFAULT_PORT}"
    """HOST:PORT of the gRPC endpoint; port 0 takes a free one.

    Any host but loopback opens the broker to that network.
    """

    metrics_listen: str = ""
    """HOST:PORT of the Prometheus endpoint, plain HTTP without access control; port 0 takes a free one.

    Empty for none. Any host but loopback requires `metrics_allow_anonymous`.
    """

    console_listen: str = ""
    """HOST:PORT of the web console; port 0 takes a free one. Empty for none.

    It shows what waits. It uses the certificate and the tokens of the broker, if it has any.
    """

    console_write: bool = False
    """Actions in the console, such as pausing a sink or redriving dead letters.

    Each is previewed and confirmed, and needs the right that its command needs.
    """

    console_trace_url: Annotated[str, AfterValidator(_trace_url)] = ""
    """Address of a trace, with `{trace_id}`, that the console links records to.

    Such as `https://grafana.example/explore/tempo/{trace_id}`. Empty for no links.
    """

    console_spark_url: Annotated[str, AfterValidator(_spark_url)] = ""
    """Address of a Spark application, with `{application}`, that the console links its writes to.

    Such as `https://spark.example/history/{application}/`. Empty for no links.
    """

    tls_server_cert_file: str = ""
    """PEM file of the broker's certificate, with intermediate certificates.

    With it the broker accepts TLS only.
    """

    tls_server_key_file: str = ""
    """PEM file of the certificate's private key, without a password."""

    tls_client_ca_file: str = ""
    """PEM file of certificate authorities.

    Every client has to present a certificate of one of them (mTLS).
    """

    token_hashes_file: str = ""
    """File of principals: hashes of their tokens, and their rights.

    With it every call needs a credential of that file.
    """

    allow_anonymous: bool = False
    """Permit a broker without access control to listen beyond loopback, where every caller may do
    everything.
    """

    metrics_allow_anonymous: bool = False
    """Permit `metrics_listen` beyond loopback.

    Every caller of that network may read names of sinks and subscriptions and their figures there, with or without
    tokens. `allow_anonymous` permits it too.
    """

    audit_log_file: str = ""
    """File that the audit log is written to, besides the log. Empty for none."""

    tokens_without_tls: bool = False
    """Permit unencrypted tokens over a network, for a network that encrypts by itself."""

    sinks_max: int = Field(default=10_000, ge=1, le=1_000_000)
    """Maximum number of sinks."""

    partitions_max: int = Field(default=100_000, ge=1, le=10_000_000)
    """Maximum number of partitions of all sinks together."""

    streams_max: int = Field(default=4_096, ge=1, le=1_000_000)
    """Maximum number of open publish, deliver, replay and watch streams."""

    connections_max: int = Field(default=4_096, ge=16, le=1_000_000)
    """Maximum number of open connections, unauthenticated ones included.

    Lower where the limit of open files is.
    """

    connections_per_peer_max: int = Field(default=2_048, ge=1, le=1_000_000)
    """Maximum number of open connections from one address."""

    calls_per_connection_max: int = Field(default=1_024, ge=16, le=1_000_000)
    """Maximum number of open calls of one connection. A client queues further ones."""

    unread_bytes_max: int = Field(default=128 << 20, ge=64 << 20, le=64 << 30)
    """Maximum memory of requests that are incomplete or not decoded, of all connections.

    Beyond it requests that stopped arriving are ended first, then those of the host with the most.
    """

    handshake_timeout_s: float = Field(default=10.0, ge=1.0, le=300.0)
    """Time limit of a new connection for TLS and the first frames of HTTP/2."""

    connection_idle_s: float = Field(default=300.0, ge=10.0, le=86_400.0)
    """Time without an open call after which a connection is closed gracefully.

    Clients reconnect by themselves.
    """

    session_timeout_s: float = Field(default=15.0, ge=1.0, le=3_600.0)
    """Time limit of a consumer for the answer to a ping.

    Then its partitions are reassigned, without a failed attempt.
    """

    keepalive_s: float = Field(default=30.0, ge=10.0, le=3_600.0)
    """Silence of a peer after which it is probed.

    Without an answer within 20 s its connection and streams end.
    """

    stream_bytes_max: int = Field(default=256 << 20, ge=16 << 20, le=64 << 30)
    """Maximum memory of all open streams and of answers of Pull and Peek: read ahead, or not yet taken
    by their peers.
    """

    waiting_bytes_max: int = Field(default=256 << 20, ge=1 << 20, le=16 << 30)
    """Maximum bytes that wait for their sync. Further appends are rejected with TOO_MANY_WAITING."""

    tail_bytes: int = Field(default=64 << 20, ge=0, le=16 << 30)
    """Memory for the newest pages of all sinks, for readers at the head.

    Above it the sink with most gives up its oldest page.
    """

    realtime: bool = True
    """Serve readers at the head from memory, in sinks whose setting `realtime` is true.

    `forebay realtime on` and `off` override it, also after a restart.
    """

    record_bytes_max: int = Field(default=8 << 20, ge=1 << 10, le=8 << 20)
    """Size limit of one record, key and headers included."""

    disk_reserve_bytes: int = Field(default=512 << 20, ge=0, le=1 << 40)
    """Free space that appends leave on the device. Below it they are rejected with DISK_FULL. 0 for none.

    It holds also for the device of a journal in a directory; the reason is JOURNAL_FULL then.
    """

    disk_ballast_bytes: int = Field(default=64 << 20, ge=0, le=1 << 30)
    """Space allocated in the data directory that a start on a full disk releases first. 0 for none."""

    max_broker_bytes: int = Field(default=0, ge=0, le=1 << 62)
    """Maximum bytes of stored pages of all sinks together.

    Further appends are rejected with BROKER_FULL. 0 for no limit.
    """

    memory_high_watermark: float = Field(default=0.8, ge=0.05, le=1.0)
    """Fraction of the machine's or control group's memory above which the broker restricts appends and
    frees memory.
    """

    max_clock_step_s: float = Field(default=604_800.0, ge=0.0, le=3.2e8)
    """Largest forward step of the wall clock over a reboot that ages records.

    A larger one, or one back, does not.
    """

    log_format: Annotated[str, AfterValidator(_known_log_format)] = LogFormat.TEXT.value
    """Format of the log on standard error: `text`, or `json` with one object per event."""

    drain_s: float = Field(default=10.0, ge=0.0, le=300.0)
    """Time limit of a stop for calls that are in progress."""

    backup_target: str = ""
    """Directory or address (`s3://`, `gs://`, `az://`) that backups are written to. Empty for no backups.

    The broker writes backups nowhere else.
    """

    backup_interval_s: float = Field(default=0.0, ge=0.0, le=31_536_000.0)
    """Time between two backups. 0 for backups by request only.

    After two intervals without a complete backup `forebay info` shows a warning.
    """

    backup_keep_last: int = Field(default=7, ge=1, le=10_000)
    """Number of newest backups that are kept after a scheduled one."""

    backup_keep_days: float = Field(default=0.0, ge=0.0, le=36_500.0)
    """Age up to which further backups are kept after a scheduled one, in days."""

    sink_defaults: Annotated[SinkSettings, GetPydanticSchema(_named_settings)] = DEFAULTS
    """Settings of a sink unless its creator names others, by their public names."""

    @field_validator("*", mode="before")
    @classmethod
    def _numbers(cls, value: object, info: ValidationInfo) -> object:
        """Refuse true and false for each setting that is a number."""
        is_number = cls.model_fields[info.field_name or ""].annotation in {int, float}
        return _number(value) if is_number else value

    @property
    def listens_openly(self) -> bool:
        """Tell whether callers of other machines need neither a token nor a certificate."""
        return not (self.token_hashes_file or self.tls_client_ca_file or is_loopback(self.listen))

    @property
    def permits_open_metrics(self) -> bool:
        """Tell whether the Prometheus endpoint may listen beyond loopback."""
        return self.metrics_allow_anonymous or self.allow_anonymous

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is given and the environment: no file is read that is not named."""
        return init_settings, env_settings


class FileSettings(BrokerSettings):
    """Settings of a broker without those of the environment."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *others: Any, **named: Any
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is given."""
        return (init_settings,)


def load(config: Path | None = None, /, *, from_environment: bool = True, **given: Any) -> BrokerSettings:
    """Read the settings: file, then environment, then ``given``. None in ``given`` means not given.

    Raises:
        SettingsError: a name or value is wrong, or the file cannot be read.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    try:
        filed = tomllib.loads(config.read_text()) if config is not None else {}
        environment = EnvSettingsSource(BrokerSettings)() if from_environment else {}
        kind = BrokerSettings if from_environment else FileSettings
        settings = kind(**_plain(_merged(_merged(filed, environment), chosen)))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            raise SettingsError(f"{name}: unknown setting") from error
        raise SettingsError(f"{name} = {first['input']!r:.80}: {first['msg'].removeprefix('Value error, ')}") from error
    except (InvalidSetting, UnreadableVariable, tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise SettingsError(str(error)) from error
    address(settings.listen)
    if settings.metrics_listen:
        address(settings.metrics_listen, name="metrics_listen")
    if settings.console_listen:
        address(settings.console_listen, name="console_listen")
    _check_security(settings)
    _check_shard(settings)
    if settings.backup_interval_s and not settings.backup_target:
        raise SettingsError(f"backup_interval_s = {settings.backup_interval_s:g}: is of no use without backup_target")
    return settings


def _check_shard(settings: BrokerSettings) -> None:
    """Refuse a shard whose owner clients could not find."""
    if not settings.shard:
        return
    if settings.advertise:
        address(settings.advertise, name="advertise")
    if not SHARD_NAME.fullmatch(settings.shard):
        raise SettingsError(f"shard = {settings.shard!r}: must be 1 to 63 of a-z, 0-9 and -, and not begin with -")
    if not settings.journal:
        raise SettingsError(f"shard = {settings.shard!r}: is of no use without journal")
    host = address(settings.listen)[0].strip("[]")
    if not settings.advertise and host in {"0.0.0.0", "::"}:
        raise SettingsError(
            f"shard = {settings.shard!r}: needs advertise, because clients cannot connect to listen = "
            f"{settings.listen!r}; set it to the HOST:PORT at which they reach this broker"
        )


def _check_security(settings: BrokerSettings) -> None:
    """Refuse what would be less safe than it looks. Reads no file."""
    cert, key = settings.tls_server_cert_file, settings.tls_server_key_file
    for name, given, other, missing in (
        ("tls_server_cert_file", cert, "tls_server_key_file", key),
        ("tls_server_key_file", key, "tls_server_cert_file", cert),
        ("tls_client_ca_file", settings.tls_client_ca_file, "tls_server_cert_file", cert),
    ):
        if given and not missing:
            raise SettingsError(f"{name} = {given}: is of no use without {other}")
    if settings.listens_openly and not settings.allow_anonymous:
        raise SettingsError(
            f"listen = {settings.listen!r}: every caller of that network could read, change and delete every sink; set "
            "token_hashes_file (with tls_server_cert_file and tls_server_key_file), or tls_client_ca_file, or "
            "allow_anonymous = true where the network itself keeps strangers out"
        )
    console = settings.console_listen
    if console and not (is_loopback(console) or settings.token_hashes_file or settings.allow_anonymous):
        raise SettingsError(
            f"console_listen = {console!r}: every browser of that network could see every sink; set token_hashes_file, "
            "or allow_anonymous = true where the network itself keeps strangers out"
        )
    measured = settings.metrics_listen
    if measured and not (is_loopback(measured) or settings.permits_open_metrics):
        raise SettingsError(f"metrics_listen = {measured!r}: {OPEN_METRICS}")
    unencrypted = bool(settings.token_hashes_file) and not cert
    for name, listen in (("listen", settings.listen), ("console_listen", settings.console_listen)):
        if unencrypted and not settings.tokens_without_tls and listen and not is_loopback(listen):
            raise SettingsError(
                f"token_hashes_file = {settings.token_hashes_file}: tokens would go unencrypted over the network that "
                f"{name} = {listen!r} opens; set tls_server_cert_file and tls_server_key_file, or "
                "tokens_without_tls = true where the network itself encrypts"
            )


def _merged(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    """``low`` with ``high`` on top of it, table by table."""
    merged = dict(low)
    for name, value in high.items():
        below = merged.get(name)
        merged[name] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _plain(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """``values`` with plain numbers for sizes and durations such as 10GB and 5m; raises ``SettingsError``."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        try:
            found[name] = _plain(value, f"{name}.") if isinstance(value, dict) else value
            if isinstance(value, str):
                found[name] = plain(name, value)
        except ValueError as error:
            raise error if isinstance(error, SettingsError) else SettingsError(f"{prefix}{name} = {error}") from error
    return found


def address(text: str, *, name: str = "listen") -> tuple[str, int]:
    """Host and port of HOST:PORT; raises ``SettingsError``, which names the setting ``name``."""
    host, colon, port = text.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= PORT_DIGITS_MAX
    if not colon or not host or not is_number or int(port) > 65_535:
        raise SettingsError(f"{name} = {text!r}: must be HOST:PORT with a port of 0 to 65535")
    return host, int(port)


def is_loopback(listen: str) -> bool:
    """Return whether only this machine can connect to HOST:PORT."""
    host = address(listen)[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
