"""Diagrams: what passes from where to where, with the durations and names that the settings have."""

from __future__ import annotations

from collections.abc import Callable

from matplotlib.figure import Figure

from docs.generate.figures.drawing import boxes
from livesvm.service.settings import Settings


def _default(name: str) -> str:
    value = Settings.model_fields[name].default
    return f"{value:g}" if isinstance(value, float) else str(value)


def update() -> Figure:
    """Draw the life of an update."""
    return boxes(
        {
            "caller": (0.8, 3, "caller"),
            "check": (2.8, 3, "check"),
            "queue": (4.8, 3, "queue of\nthe model"),
            "log": (6.8, 3, "log"),
            "path": (8.9, 3, "path"),
            "version": (8.9, 0.8, "new version"),
            "read": (4.8, 0.8, "predictions"),
        },
        ["caller > check > queue > log > path > version", "version > read: read it, never wait"],
        [
            (2.8, 1.9, "a refusal ends here:\nnothing has changed"),
            (6.8, 1.9, "from here on a crash\nloses nothing"),
        ],
    )


def erase() -> Figure:
    """Draw what an erasure searches and replaces."""
    return boxes(
        {
            "asked": (1, 2, "request:\nkeys or tags"),
            "search": (3.4, 2, "search all\nthat is stored"),
            "model": (6, 3.4, "solve without\nthem"),
            "history": (6, 2, "one snapshot\nreplaces the history"),
            "others": (6, 0.6, "datasets, jobs,\nstored answers"),
            "receipt": (9, 2, "signed receipt"),
        },
        ["asked > search", *(f"search > {part} > receipt" for part in ("model", "history", "others"))],
    )


def secure() -> Figure:
    """Draw what stands between a caller and the models."""
    return boxes(
        {
            "caller": (1, 2, "caller\nwith a key"),
            "proxy": (3.6, 2, "proxy"),
            "service": (6.3, 2, "service"),
            "store": (9, 2, "store"),
        },
        ["caller > proxy: TLS", "proxy > service: HTTP, loopback", "service > store"],
        [
            (3.6, 0.9, "tells clients apart,\nholds slow senders"),
            (6.3, 0.9, f"checks host, key, scope;\nbodies up to {int(_default('max_body_bytes')) >> 20} MiB"),
        ],
    )


def production() -> Figure:
    """Draw what a service in production stands between, and what looks at it."""
    return boxes(
        {
            "callers": (1, 2, "callers with\nkeys of their own"),
            "proxy": (3.8, 2, "proxy"),
            "active": (6.4, 3.2, "active\nservice"),
            "standby": (6.4, 0.8, "service that\nstands by"),
            "store": (9.2, 2, "Redis,\nbacked up"),
        },
        [
            "callers > proxy: TLS",
            "proxy > active",
            "proxy > standby",
            "active > store",
            "standby > store",
        ],
    )


def interfaces() -> Figure:
    """Draw from where live models are reached, besides the own calls and clients."""
    return boxes(
        {
            "v2": (1.2, 3.4, "clients of\nKServe, Triton"),
            "arrow": (1.2, 1.2, "pyarrow, Polars,\nDuckDB"),
            "service": (4.4, 2.3, "service"),
            "models": (7.0, 2.3, "live models"),
            "river": (9.4, 3.6, "river"),
            "sktime": (9.4, 2.3, "sktime"),
            "mlflow": (9.4, 1.0, "MLflow"),
        },
        [
            "v2 > service: /v2",
            "service > arrow: Arrow",
            "service > models",
            *(f"{name} > models" for name in ("river", "sktime", "mlflow")),
        ],
    )


def backup() -> Figure:
    """Draw how a backup becomes a data directory."""
    return boxes(
        {
            "data": (1.3, 3, "livesvm-data\n(service runs)"),
            "kept": (5, 3, "kept\n(checked copy)"),
            "restored": (8.7, 3, "restored-data"),
            "service": (8.7, 0.8, "service"),
        },
        ["data > kept: livesvm backup", "kept > restored: livesvm restore", "restored > service: LIVESVM_DATA_DIR"],
    )


def watch() -> Figure:
    """Draw which alerts wake a person."""
    return boxes(
        {
            "metrics": (1, 2, "service\n/metrics"),
            "prometheus": (3.4, 2, "Prometheus"),
            "critical": (6, 3.2, "critical"),
            "warning": (6, 0.8, "warning"),
            "wake": (9, 3.2, "wake a person"),
            "read": (9, 0.8, "read in the\nmorning"),
        },
        ["metrics > prometheus > critical > wake", "prometheus > warning > read"],
        [
            (6, 2.3, "down, store away or behind,\nmodels lost, memory"),
            (6, 1.6, "slow, not ready, full queues"),
        ],
    )


def kubernetes() -> Figure:
    """Draw the three ways to run on Kubernetes."""
    return boxes(
        {
            "pod": (1.2, 3, "pod"),
            "volume": (1.2, 1, "volume"),
            "serves": (3.9, 3, "pod that\nserves"),
            "waits": (5.6, 3, "pod that\nwaits"),
            "redis": (4.75, 1, "Redis"),
            "fronts": (8.6, 3.2, "front ends"),
            "actors": (8.6, 2.1, "actors"),
            "other": (8.6, 1, "Redis"),
        },
        ["pod > volume", "serves > redis", "waits > redis", "fronts > actors > other"],
        [
            (1.2, 0.2, "plain"),
            (4.75, 0.2, f"standby: takes over after {_default('lease_seconds')} s"),
            (8.6, 0.2, "ray"),
        ],
    )


def ray() -> Figure:
    """Draw the parts of a Ray cluster."""
    return boxes(
        {
            "balancer": (0.9, 2, "balancer"),
            "front": (3.2, 3, "front end"),
            "other": (3.2, 1, "front end"),
            "a": (6, 3.3, "actor"),
            "b": (6, 2, "actor"),
            "c": (6, 0.7, "actor"),
            "redis": (9, 2, "Redis"),
        },
        [
            "balancer > front",
            "balancer > other",
            "front > a > redis",
            "front > b > redis",
            "other > b",
            "other > c > redis",
        ],
        [(3.2, 2, "HTTP, keys, limits"), (6, 0.1, "models and feeds"), (9, 1.3, "log and snapshots")],
    )


def durability() -> Figure:
    """Draw in which order an update becomes durable and visible."""
    return boxes(
        {"log": (1.5, 3, "log"), "apply": (4, 3, "apply"), "publish": (6.5, 3, "publish"), "answer": (9, 3, "answer")},
        ["log > apply > publish > answer"],
        [
            (2.2, 1.8, '"fsynced": survives loss of power'),
            (2.6, 1.3, '"logged": survives a crash of the process'),
            (1.6, 0.8, '"memory": no promise'),
            (6.5, 1.8, "readers see the new version"),
            (9, 1.8, "says the level"),
        ],
    )


def mqtt() -> Figure:
    """Draw how long a broker keeps a message."""
    return boxes(
        {
            "meter": (1, 3, "meter"),
            "broker": (4, 3, "broker\n(session)"),
            "feed": (7, 3, "feed"),
            "log": (9.5, 3, "log"),
        },
        ["meter > broker: publishes", "broker > feed: hands out", "feed > log"],
        [
            (4, 1.6, "keeps the message until\nit is acknowledged"),
            (8.2, 1.6, "acknowledges once the\nreading is durable"),
        ],
    )


def webhooks() -> Figure:
    """Draw where an event waits until a receiver has it."""
    return boxes(
        {
            "update": (1, 3, "update"),
            "store": (4, 3, "store\n(outbox)"),
            "courier": (7, 3, "delivery"),
            "receiver": (9.5, 3, "receiver"),
        },
        ["update > store: event", "store > courier", "courier > receiver: signed"],
        [
            (2.6, 1.6, "answered once the\nevent is in the store"),
            (7.8, 1.6, "tried again until it is answered\n200 to 299, or a dead letter"),
        ],
    )


def rest() -> Figure:
    """Draw the two states of a replica."""
    seconds = _default("rest_seconds")
    return boxes(
        {"rest": (2, 2, "at rest\n1 KB"), "awake": (8, 2, "awake")},
        ["rest > awake: a call wakes it: 5 to 150 ms"],
        [(5, 1.2, f"not used for {seconds} s, or memory is short:\nwhat changed is written, then it rests")],
    )


def deliveries() -> Figure:
    """Draw where an update that comes twice is noticed."""
    return boxes(
        {
            "sender": (0.9, 2.6, "sender"),
            "request": (3.6, 2.6, "name of the\nrequest"),
            "keys": (6.4, 2.6, "keys of\nits rows"),
            "window": (9.2, 2.6, "window"),
        },
        ["sender > request", "request > keys: new", "keys > window: new"],
        [
            (3.6, 1.2, "known: the answer\nof the first time"),
            (6.4, 1.2, "known: refuse,\nignore or replace"),
            (9.2, 1.2, "remembers the keys\nof what leaves"),
        ],
    )


FIGURES: dict[str, Callable[[], Figure]] = {
    draw.__name__: draw
    for draw in (
        update,
        interfaces,
        erase,
        secure,
        production,
        backup,
        watch,
        kubernetes,
        ray,
        durability,
        deliveries,
        mqtt,
        webhooks,
        rest,
    )
}
