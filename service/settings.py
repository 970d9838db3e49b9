"""All settings of the service, which are read from environment variables and have safe defaults."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from livesvm.service.access import brokers
from livesvm.service.access.hosts import ANY, is_loopback, parse_hosts
from livesvm.service.access.keys import Keys
from livesvm.service.logs import traces
from livesvm.service.logs.setup import Format
from livesvm.service.resources import environment
from livesvm.service.resources.machine import cores, memory_bytes
from livesvm.service.store import connect

PREFIX = "LIVESVM_"


def _default_solves() -> int:
    return max(1, cores() - 1)


def _default_memory_mb() -> int:
    return max(LEAST_MEMORY_MB, memory_bytes() * 3 // 4 // 2**20)


LEAST_MEMORY_MB = 512
"""Least memory budget in megabytes, which the service with a small model and one request needs."""
_DEFAULTS = {"solves": "cores - 1", "memory_mb": "3/4 of memory"}
"""The text of defaults that depend on the machine."""
TAKEN = (
    "access|datasets|docs|erase|events|feeds|fleets|health|help|inspect|jobs|metrics|models|openapi.json|page|receipts|"
    "redoc|static-offline-docs|updates|v2|webhooks"
)
"""First parts of the service's own paths."""


class Settings(BaseSettings):
    """The settings of the service; the environment variable ``LIVESVM_MAX_MODELS`` sets the field ``max_models``."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, allow_inf_nan=False)

    host: str = Field(
        default="127.0.0.1", description="Address to listen on; without API keys only a loopback address."
    )
    port: int = Field(default=8000, ge=0, le=65535, description="Port to listen on; 0 takes a free one and prints it.")
    data_dir: Path = Field(
        default=Path("livesvm-data"),
        description="Directory of the embedded store and of this service's own files; made if absent.",
    )
    redis_url: str = Field(
        default="",
        repr=False,
        description="Redis that keeps the models, as redis://, rediss://, unix://, redis+sentinel:// or "
        "rediss+sentinel://; empty: the embedded store does.",
    )
    sources: str = Field(
        default="",
        repr=False,
        description="Redis servers and MQTT brokers (mqtt://, mqtts://) that feeds may read from, as name=url "
        "separated by spaces. The name `store` stands for LIVESVM_REDIS_URL.",
    )
    webhook_hosts: str = Field(
        default="",
        description="Host names that webhooks may send to, separated by commas; `*`: any. Empty: no webhook can be "
        "created.",
    )
    webhook_private: bool = Field(
        default=False,
        description="Whether webhooks may send to addresses inside the machine and private networks, and by plain "
        "http.",
    )
    webhook_seconds: float = Field(
        default=86_400.0,
        gt=0,
        le=2_592_000,
        description="Time for which a message that is not delivered is tried again. After that it is a dead letter.",
    )
    redis_prefix: str = Field(
        default="livesvm", pattern=r"^[A-Za-z0-9_.-]{1,64}$", description="First part of every key in Redis."
    )
    redis_seconds: float = Field(
        default=1.0, gt=0, le=60, description="Time that Redis has for one call. After that it counts as away."
    )
    lease_seconds: float = Field(
        default=5.0,
        ge=1,
        description="Silence after which another service takes over a model in Redis. A restart on the same data "
        "directory need not wait.",
    )
    ray: str = Field(
        default="",
        description="Ray cluster that hosts the models, as host:port, or auto on one of its nodes; local: this service "
        "starts Ray on this machine for itself. Needs livesvm[ray] and LIVESVM_REDIS_URL. Empty: this process hosts "
        "them. All front ends need the same value, and the same of the next six settings.",
    )
    ray_actors: int = Field(
        default=0, ge=0, le=4096, description="Actors that share the models between them; 0: one for each model."
    )
    ray_actor_mb: int = Field(
        default=512,
        ge=64,
        description="Megabytes that Ray plans for the models of one actor. A model alone in its actor is planned by "
        "the bounds of its window and features, where it has both.",
    )
    ray_seconds: float = Field(
        default=20.0, gt=0, le=600, description="Time for which a call waits for an actor that was lost; then 503."
    )
    ray_predictions: Literal["snapshot", "actor"] = Field(
        default="snapshot",
        description="What predicts: the front end, from the newest version that it knows, or the actor.",
    )
    ray_stale_seconds: float = Field(
        default=0.0,
        ge=0,
        le=3600,
        description="Time for which the front end goes on with its version after it has heard of a newer one. The "
        "answer names the version.",
    )
    ray_shard_mb: int = Field(
        default=1024,
        ge=1,
        description="A dataset above so many megabytes, as numbers, is retrained on in shards of at most this size. "
        "Each shard needs a worker with a core, four times this memory and 300 MB.",
    )
    api_keys: str = Field(
        default="",
        description="Keys that may call, as label:scope:sha256hex separated by commas. The scope is read, learn or "
        "admin; each includes the ones before. `livesvm key` makes one. Empty: no key is asked for.",
    )
    api_keys_file: str = Field(
        default="",
        description="File with such entries instead, one a line. A change of the file holds within a second, "
        "without a restart.",
    )
    allowed_hosts: str = Field(
        default="",
        description="Host names under which requests are answered, separated by commas, besides loopback and "
        "LIVESVM_HOST. Other names are answered 421. `*`: any name, with API keys only.",
    )
    root_path: str = Field(
        default="",
        description="Path under which a proxy has the service, as /ml/livesvm, whether it takes the path off or not. "
        "Empty: the root.",
    )
    docs_need_key: bool = Field(
        default=False,
        description="Whether /docs, /redoc and /openapi.json ask for an API key too, where there are any.",
    )
    page: bool = Field(
        default=True, description="Whether the service shows a page for people at /, and its documentation at /help."
    )
    log_level: str = Field(
        default="info", pattern="^(debug|info|warning|error)$", description="Lowest level that is logged."
    )
    log_format: Format = Field(
        default="auto",
        description="How lines of the log look: json, text, or auto: text where they go to a terminal.",
    )
    slow_seconds: float = Field(
        default=1.0,
        gt=0,
        description="A request that takes longer is logged as a warning, with the stage that took most.",
    )
    audit_file: str = Field(
        default="",
        description="File for the audit log: which key changed which model, how, and to which version. Empty: it is "
        "part of the log.",
    )
    traces: bool = Field(
        default=False,
        description="Whether requests are sent as OpenTelemetry traces to OTEL_EXPORTER_OTLP_ENDPOINT; needs "
        "livesvm[otel].",
    )
    solves: int = Field(
        default_factory=_default_solves,
        ge=1,
        le=256,
        description="Hard solves that run at once, and one more while it is short.",
    )
    solve_seconds: float = Field(
        default=30.0,
        gt=0,
        le=86_400,
        description="Time to solve one update or to compute one certificate, without waiting. After that the model is "
        "as it was. The query `max_seconds` of a call can only shorten it.",
    )
    predict_threads: int = Field(default=4, ge=1, le=256, description="Threads that answer predictions.")
    max_calls: int = Field(
        default=64,
        ge=1,
        description="Calls of one kind under way: predictions, updates that are read, others; half of them with one "
        "API key. More are answered 429.",
    )
    queue_size: int = Field(
        default=64, ge=1, description="Commands that may wait for one model. More are answered 429."
    )
    max_body_bytes: int = Field(default=8 * 2**20, ge=1024, description="Largest request body, in bytes; more is 413.")
    header_seconds: float = Field(
        default=10.0,
        gt=0,
        description="Time for a client to send the head of a request, and then to go on with its body. After that 408.",
    )
    body_seconds: float = Field(
        default=30.0,
        gt=0,
        description="Time for a client to send a request body; after that 408. Also the time to go on reading an "
        "answer.",
    )
    max_bodies: int = Field(
        default=32,
        ge=2,
        description="Request bodies of the largest size that may be received at once, half of them from one client. "
        "More are answered 429.",
    )
    max_connections: int = Field(
        default=512,
        ge=1,
        description="Connections at once. One more closes the one that was idle longest; where none is idle it is "
        "answered 429.",
    )
    max_client_connections: int = Field(
        default=256,
        ge=1,
        description="Connections of one client, which is an address, or an IPv6 network of 64 bits. Behind a proxy "
        "all clients are one: set it to LIVESVM_MAX_CONNECTIONS.",
    )
    max_models: int = Field(default=100_000, ge=1, description="Models that may exist at once.")
    max_feeds: int = Field(
        default=100_000,
        ge=1,
        description="Feeds that may exist at once. Readings of fleets create no more than nine tenths of them; the "
        "rest is for calls that need an admin key.",
    )
    max_fleet_series: int = Field(
        default=20_000,
        ge=1,
        description="Series that one fleet may have by readings. `POST /fleets/{id}/series` creates more.",
    )
    max_examples: int = Field(
        default=50_000,
        ge=1,
        description="Examples that one window may hold; 20 times as many if the model has `components`.",
    )
    max_features: int = Field(default=10_000, ge=1, description="Features that one example may have.")
    max_classes: int = Field(
        default=100, ge=2, le=1000, description="Classes that one model may have; k of them are k (k - 1) / 2 problems."
    )
    max_predict_rows: int = Field(default=100_000, ge=1, description="Rows that one predict call may ask for.")
    cache_mb: int = Field(
        default=512,
        ge=1,
        description="Megabytes of kernel rows that one model may keep. Those of its free examples have to fit: 10 "
        "bytes for each example of the window.",
    )
    memory_mb: int = Field(
        default_factory=_default_memory_mb,
        ge=LEAST_MEMORY_MB,
        description="Megabytes for the whole process. Each body, prediction, model and job asks for its memory before "
        "it begins. What does not fit is refused: 413, 429 or 507. Default: three quarters of what the machine or its "
        "control group gives.",
    )
    snapshot_updates: int = Field(
        default=200, ge=1, description="Updates after which a snapshot of a model is written."
    )
    rest_seconds: float = Field(
        default=600.0,
        gt=0,
        description="A model or feed that was not used for so long goes to rest: its state leaves memory, and the "
        "next call brings it back. Sooner where memory is short.",
    )
    snapshot_seconds: float = Field(
        default=300.0,
        gt=0,
        description="Seconds after which a snapshot of a changed model is written; of a feed only if its new "
        "readings take longer to learn again.",
    )
    snapshot_replay_seconds: float = Field(
        default=5.0,
        gt=0,
        description="Seconds of solving after which a snapshot is written, as a return to an earlier version solves "
        "updates again.",
    )
    solution_seconds: float = Field(
        default=0.05,
        gt=0,
        description="Seconds of solving after which the solution is stored without the examples, so that a restart "
        "does not solve again. With 2,000 free examples it is stored after each update.",
    )
    idempotency_keep: int = Field(
        default=1000, ge=1, description="Newest updates of a model for which the Idempotency-Key is remembered."
    )
    drain_seconds: float = Field(
        default=0.0,
        ge=0,
        le=600,
        description="Time after SIGTERM for which the service still answers, while it is not ready and closes each "
        "connection after its answer. A load balancer finds another service meanwhile. A second signal ends it.",
    )
    shutdown_seconds: int = Field(
        default=30,
        ge=1,
        description="Time for requests under way to end after that. Then they get 503, and their solves are cut off.",
    )
    tune_share: float = Field(
        default=0.2,
        ge=0,
        le=1000,
        description="Share of the processor time of updates that a model which tunes itself may take for choosing its "
        "parameters again. The first choice is made in any case.",
    )
    jobs: int = Field(default=1, ge=1, le=64, description="Jobs that run at once.")
    jobs_waiting: int = Field(
        default=16, ge=1, description="Jobs that may wait, half of them of one API key; more are answered 429."
    )
    jobs_kept: int = Field(default=100, ge=0, description="Finished jobs that are kept, with their results.")
    max_datasets: int = Field(default=32, ge=1, description="Datasets that may be kept at once.")
    dataset_bytes: int = Field(
        default=4 * 2**30,
        ge=1024,
        description="Largest dataset in bytes, as it is uploaded and as numbers. It is kept on the disk of "
        "LIVESVM_DATA_DIR.",
    )
    datasets_share: float = Field(
        default=0.5, gt=0, le=1, description="Share of the disk of LIVESVM_DATA_DIR that datasets may take, together."
    )
    disk_room_mb: int = Field(
        default=512, ge=0, description="Megabytes of that disk that datasets leave free, so that updates can be logged."
    )
    receipt_days: float = Field(
        default=365.0, ge=0, le=36_500, description="Days for which receipts of erasures are kept."
    )
    streams: int = Field(
        default=64,
        ge=1,
        description="Event streams that may be open, half of them with one API key, or of one client where there are "
        "no keys. More are answered 429.",
    )
    heartbeat_seconds: float = Field(
        default=15.0, gt=0, description="Seconds without news after which an event stream says that it is still there."
    )
    compile_ahead: bool = Field(
        default=True,
        description="Whether solvers that only jobs need are compiled in the background. Otherwise the first such job "
        "compiles them.",
    )
    metrics_models: int = Field(
        default=50, ge=0, description="Models, by id, that get series of their own in /metrics."
    )

    @property
    def named_sources(self) -> dict[str, str]:
        """Map names of sources to the URLs that feeds may read from; raises ValueError, never with a password."""
        known = connect.named_urls(self.sources, _check_source)
        return {"store": self.redis_url} | known if self.redis_url else known

    @model_validator(mode="before")
    @classmethod
    def _environment_is_known(cls, given: Any) -> Any:
        defaults = {PREFIX + name.upper(): field.default for name, field in cls.model_fields.items()}
        environment.check(os.environ, PREFIX, defaults)
        return given

    @field_validator("root_path")
    @classmethod
    def _root_path_is_a_path(cls, given: str) -> str:
        path = given.rstrip("/")
        if not re.fullmatch(r"(/(?!\.+(/|$))[A-Za-z0-9._~-]+)*", path):
            raise ValueError("is a path such as /ml/livesvm: parts of letters, digits and -._~, each behind a slash")
        if taken := re.match(f"/({TAKEN})(/|$)", path):
            raise ValueError(f"/{taken[1]} is a path of the service itself; begin with another part")
        return path

    @model_validator(mode="after")
    def _keys_are_readable(self) -> Self:
        if self.api_keys and self.api_keys_file:
            raise ValueError(f"give the keys in {PREFIX}API_KEYS or in {PREFIX}API_KEYS_FILE, not in both")
        try:
            Keys(self.api_keys, self.api_keys_file)
        except OSError as error:
            what = f"{PREFIX}API_KEYS_FILE={self.api_keys_file} cannot be read"
            raise ValueError(f"{what}: {error.strerror}") from None
        return self

    @model_validator(mode="after")
    def _webhook_hosts_are_readable(self) -> Self:
        parse_hosts(self.webhook_hosts)
        return self

    @model_validator(mode="after")
    def _traces_are_possible(self) -> Self:
        if self.traces and not traces.is_possible():
            raise ValueError(f"{PREFIX}TRACES needs what `pip install livesvm[otel]` brings")
        return self

    @model_validator(mode="after")
    def _redis_is_readable(self) -> Self:
        if self.redis_url:
            connect.check_url(self.redis_url)
        _ = self.named_sources
        return self

    @model_validator(mode="after")
    def _ray_is_possible(self) -> Self:
        if self.ray and not self.redis_url:
            raise ValueError(f"{PREFIX}RAY needs {PREFIX}REDIS_URL: models that move are restored from Redis")
        if self.ray and find_spec("ray") is None:
            raise ValueError(f"{PREFIX}RAY needs what `pip install livesvm[ray]` brings")
        return self

    @model_validator(mode="after")
    def _open_only_on_loopback(self) -> Self:
        what = None
        if not is_loopback(self.host):
            what = f"the service binds to a loopback address only, not to {self.host!r}"
        if ANY in parse_hosts(self.allowed_hosts):
            what = f"{PREFIX}ALLOWED_HOSTS lists names, and not every one"
        if what is not None and not (self.api_keys or self.api_keys_file):
            raise ValueError(f"without {PREFIX}API_KEYS {what}; `livesvm key` makes a key")
        return self


def _check_source(url: str) -> None:
    if brokers.is_broker(url):
        brokers.parse_broker(url)
    elif url.partition("://")[0] in connect.SCHEMES:
        connect.check_url(url)
    else:
        known = ", ".join(f"{scheme}://" for scheme in (*connect.SCHEMES, *brokers.SCHEMES))
        raise ValueError(f"the URL of a source begins with one of {known}")


def table() -> list[tuple[str, str, str]]:
    """Return the environment variable, the default and the meaning of each setting."""
    rows = []
    for name, field in Settings.model_fields.items():
        default = _DEFAULTS.get(name, str(field.default))
        rows.append((PREFIX + name.upper(), default, field.description or ""))
    return rows
