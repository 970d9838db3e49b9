"""Tables of the reference, made from the code that they describe: settings, options, metrics, alerts, errors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from docs.generate import cli, rest, source_map
from docs.generate.markdown import table
from livesvm.service import settings
from livesvm.service.api.problem_documents import INTERNAL, KINDS, TYPE_PREFIX, Kind
from livesvm.service.feeds.sources.spec import MqttSpec, RedisStreamSpec
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.fleets.spec import FleetSpec
from livesvm.service.hosting.handle import Description
from livesvm.service.models.spec import KernelSpec, ModelSpec, WindowSpec
from livesvm.service.models.tasks import TASKS
from livesvm.service.monitoring.feeds import FeedSample, FleetSample, SourceSample, StepSample
from livesvm.service.monitoring.metrics import SHOWN, Metrics

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\[([^]]*)\]\((?!https?:)[^)]*\)")


def settings_table() -> str:
    """Return a table of the service's settings."""
    rows = [(f"`{name}`", f"`{default}`" if default else "(empty)", what) for name, default, what in settings.table()]
    return table(["setting", "default", "meaning"], rows)


def feed_options() -> str:
    """Return a table of what a feed can be created with."""
    return _fields(FeedSpec)


def fleet_options() -> str:
    """Return a table of what a fleet can be created with in addition to a feed."""
    return _fields(FleetSpec, leaving_out=FeedSpec)


def source_options() -> str:
    """Return a table of the settings of a Redis Stream."""
    return _fields(RedisStreamSpec)


def mqtt_options() -> str:
    """Return a table of the settings of a broker's topics."""
    return _fields(MqttSpec)


def model_options() -> str:
    """Return a table of what a model can be created with."""
    return _fields(ModelSpec)


def kernel_options() -> str:
    """Return a table of the settings of a kernel."""
    return _fields(KernelSpec)


def window_options() -> str:
    """Return a table of what bounds a window."""
    return _fields(WindowSpec)


def tasks() -> str:
    """Return a table of the tasks, with the parameters that each one has."""
    rows = [
        (f"`{name}`", ", ".join(f"`{parameter}` = {value}" for parameter, value in task.parameters.items()) or "none")
        for name, task in TASKS.items()
    ]
    return table(["task", "its own parameters, with defaults"], rows)


def errors() -> str:
    """Return a table of the types of problem documents."""
    kinds: dict[str, Kind] = {kind.slug: kind for kind in (*KINDS.values(), INTERNAL)}
    rows = [
        (f"`{TYPE_PREFIX}{slug}`", str(kind.status), kind.title, "" if kind.retry_after is None else "yes")
        for slug, kind in sorted(kinds.items())
    ]
    return table(["type", "status", "title", "says when to ask again"], rows)


def all_of(shown: list[Any]) -> Any:
    """Return what the metrics ask of all models, or of all feeds, where these samples are all that they show."""
    return SimpleNamespace(
        states=lambda: Counter(sample.state for sample in shown if isinstance(sample, Description)),
        samples=lambda limit: [one for one in shown if getattr(one, "state", "live") == "live"][:limit],
        samples_awake=lambda: shown[::2],
        samples_at_rest=lambda: iter(shown[1::2]),
    )


def all_metrics() -> Metrics:
    """Return the metrics of a service in which everything is there that has a metric."""
    metrics = Metrics()
    metrics.watch(all_of([Description("live", id="river", updated_at=0.0)]), 1)
    steps, source = (StepSample(1, 1.0, 2.0, 0.9),), SourceSample(True, 0, 0, 0.0)
    metrics.watch_feeds(all_of([FeedSample("load", 1, 0, 0.0, 3600.0, 0.9, steps, source)]), 1)
    metrics.watch_fleets(lambda: [FleetSample("meters", {"live": 1}, 1, 0.8, 0.7, 0.9, 0.9, source)])
    metrics.show(**{name: partial(dict, {labels: 1.0}) for name, (_, labels) in SHOWN.items()})
    return metrics


def metrics_table() -> str:
    """Return a table of the service's own metrics, by name."""
    metrics = all_metrics()
    labels = {one._name: one._labelnames for one in vars(metrics).values() if hasattr(one, "_labelnames")}
    rows = []
    for family in sorted(metrics.registry.collect(), key=lambda family: family.name):
        if family.name.startswith("livesvm_"):
            seen = {label for sample in family.samples for label in sample.labels} - {"le"}
            names = labels.get(family.name) or sorted(seen)
            name = family.name + ("_total" if family.type == "counter" else "")
            rows.append((f"`{name}`", family.type, ", ".join(f"`{label}`" for label in names), family.documentation))
    return table(["metric", "type", "labels", "meaning"], rows)


def alerts() -> str:
    """Return a table of the alerts that come with the service."""
    groups = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text(encoding="utf-8"))["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    rows = []
    for rule in rules:
        said = rule["annotations"]
        means = said.get("description", said["summary"])
        rows.append((f"`{rule['alert']}`", rule["labels"]["severity"], f"`{rule['expr']}`", means))
    return table(["alert", "severity", "when", "what it means and what to do"], rows)


def _document(name: str) -> Callable[[], str]:
    """Return a function that reads a document of the top level; its links within the source lose their target."""

    def read() -> str:
        text = (ROOT / name).read_text(encoding="utf-8")
        return _LINK.sub(r"\1", text.partition("\n")[2])

    return read


def _fields(model: type[BaseModel], leaving_out: type[BaseModel] = BaseModel) -> str:
    properties: dict[str, Any] = model.model_json_schema()["properties"]
    rows = [
        (f"`{name}`", rest.type_of(properties[name]), _default(field), field.description or "")
        for name, field in model.model_fields.items()
        if name not in leaving_out.model_fields
    ]
    return table(["option", "type", "default", "meaning"], rows)


def _default(field: Any) -> str:
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or value is None:
        return "absent"
    if isinstance(value, BaseModel):
        return "its defaults"
    return f"`{value!r}`" if not isinstance(value, str) else f"`{value}`"


TABLES: dict[str, Callable[[], str]] = {
    "settings": settings_table,
    "feed_options": feed_options,
    "fleet_options": fleet_options,
    "source_options": source_options,
    "mqtt_options": mqtt_options,
    "model_options": model_options,
    "kernel_options": kernel_options,
    "window_options": window_options,
    "tasks": tasks,
    "errors": errors,
    "metrics": metrics_table,
    "alerts": alerts,
    "rest_calls": rest.calls,
    "commands": cli.commands,
    "source_map": lambda: source_map.source_map(ROOT),
    "changelog": _document("CHANGELOG.md"),
    "security": _document("SECURITY.md"),
    "contributing": _document("CONTRIBUTING.md"),
}
"""What a line ``{{ name }}`` of a page stands for."""
