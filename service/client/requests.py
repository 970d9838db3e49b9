"""Requests to the service, with the functions that parse their answers; both clients send these requests."""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import itertools
import json
import uuid
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeAlias, TypeVar, overload

if TYPE_CHECKING:  # NumPy is loaded by the first call that sends numbers
    import httpx
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Key: TypeAlias = int | str | np.integer[Any]

P = ParamSpec("P")
T = TypeVar("T")
Document = dict[str, Any]
Documents = list[Document]
DATASET_MEDIA = {
    "npz": "application/x-npz",
    "svmlight": "text/x-svmlight",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
}
"""Formats of datasets, as the service names them."""
PACKED = 50_000  #: numbers of added rows from which an update is sent as npz: in JSON they would take a megabyte
_OF_UPDATES = {"add": "", "remove": "remove_", "relabel": "relabel_", "reweight": "reweight_"}
_IN_NPZ = {
    *("X", "indptr", "indices", "values", "n_features", "y", "keys", "weights", "times", "tags", "on_repeat"),
    *("decay", "C", "remove_keys", "remove_oldest", "relabel_keys", "relabel_y", "reweight_keys", "reweight_weights"),
}
_ADDED = ("y", "keys", "weights", "times", "tags", "on_repeat")
_CHANGED = ("remove", "relabel", "reweight", "decay", "C", "convex", "change", "rescale")
PAGE = 1000
"""Entries of a list that one request asks for."""


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request.

    Parameters
    ----------
    read : returns from a successful answer the result of the call, or the call's next request
    is_repeatable : whether it may be sent several times with the effect of once
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T | Request[T]]
    is_repeatable: bool
    content: bytes | Path | None = None  #: a file is read as it is sent
    headers: dict[str, str] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)


def _by_key(given: Any) -> tuple[list[Any], list[Any]]:
    """Return the keys and the values of a mapping, or the index and the values of a pandas series."""
    if isinstance(given, Mapping):
        return list(given), list(given.values())
    return given.index.tolist(), given.tolist()


def _changes(**change: Any) -> Document:
    """Return the body of an update, from arguments of ``ModelCalls.update``; raises TypeError for other names."""
    if unknown := change.keys() - {"X", *_ADDED, *_CHANGED}:
        raise TypeError(f"a change has no {', '.join(sorted(unknown))}")
    asked = given(**change)
    body: Document = {name: asked[name] for name in ("decay", "C") if name in asked}
    if asked.get("convex"):
        body["robust"] = None
    if "change" in asked:
        body["change"] = dict(asked["change"])
    if asked.get("rescale"):
        body["rescale"] = True
    if "X" in asked:
        spelled = {"y": _targets, "weights": _listed, "times": _times, "tags": _tags}
        added = {name: asked[name] for name in _ADDED if name in asked}
        added |= {name: spell(added[name]) for name, spell in spelled.items() if name in added}
        body["add"] = _features(asked["X"]) | added
    if "remove" in asked:
        if not isinstance(remove := asked["remove"], Mapping):
            raise TypeError(f"remove must be a mapping such as {{'keys': [...]}}, not a {type(remove).__name__}")
        body["remove"] = dict(remove)
    for name, target, spell in (("relabel", "y", _targets), ("reweight", "weights", _listed)):
        if name in asked:
            keys, values = _by_key(asked[name])
            body[name] = {"keys": keys, target: spell(values)}
    return body


def _packed(body: Document) -> tuple[bytes, dict[str, str]] | None:
    """Return an update as npz with its headers; None if the update is small, or has values that npz cannot hold."""
    import numpy as np

    found = {name: value for name, value in body.items() if name not in _OF_UPDATES}
    for verb, prefix in _OF_UPDATES.items():
        found |= {prefix + name: value for name, value in body.get(verb, {}).items()}
    rows = found.pop("X", [])
    if isinstance(rows, dict):
        sizes = [len(row) for row in rows["indices"]]
        found |= {name: [*itertools.chain.from_iterable(rows[name])] for name in ("indices", "values")}
        found |= {"indptr": [0, *itertools.accumulate(sizes)], "n_features": rows["n_features"]}
        size = sum(sizes)
    else:
        found["X"] = np.asarray(rows, np.float64)
        size = found["X"].size
    if size < PACKED or found.keys() - _IN_NPZ:
        return None
    stream, members = io.BytesIO(), {name: np.asarray(value) for name, value in found.items()}
    for name, member in members.items():
        if member.dtype.kind not in "fiuU" or (name != "X" and member.tolist() != found[name]):
            return None  # such as numbers among words
    np.savez(stream, **members)  # type: ignore[arg-type]
    return stream.getvalue(), {"content-type": DATASET_MEDIA["npz"]}


def _named(keys: Sequence[Key], tags: Sequence[str]) -> Document:
    return {name: list(given) for name, given in (("keys", keys), ("tags", tags)) if len(given)}


def pieces(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces of a megabyte."""
    with path.open("rb") as file:
        while piece := file.read(2**20):
            yield piece


class Sender(Protocol):
    """A client with a method that sends a request, and waits for its result."""

    def send(self, request: Request[T]) -> T:
        """Send a request, and return the parsed answer; raises ServiceProblem."""


class AsyncSender(Protocol):
    """A client with a coroutine that sends a request and returns its result."""

    async def send(self, request: Request[T]) -> T:
        """Send a request, and return the parsed answer; raises ServiceProblem."""


class Call(Generic[P, T]):
    """A call that both clients have: as a blocking method of ``Client``, and as a coroutine of ``AsyncClient``.

    Parameters
    ----------
    build : returns the request that is sent, from the arguments of the method
    """

    def __init__(self, build: Callable[Concatenate[Any, P], Request[T]]) -> None:
        @functools.wraps(build)
        def now(self: Sender, /, *arguments: P.args, **named: P.kwargs) -> T:
            return self.send(build(self, *arguments, **named))

        @functools.wraps(build)
        async def later(self: AsyncSender, /, *arguments: P.args, **named: P.kwargs) -> T:
            return await self.send(build(self, *arguments, **named))

        self._now: Callable[..., T] = now
        self._later: Callable[..., Coroutine[Any, Any, T]] = later

    @overload
    def __get__(self, client: Sender, owner: type) -> Callable[P, T]: ...

    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...

    def __get__(self, client: Any, owner: type) -> Callable[..., Any]:
        is_awaited = inspect.iscoroutinefunction(getattr(owner, "send", None))
        method: Callable[..., Any] = (self._later if is_awaited else self._now).__get__(client, owner)
        return method


def get(path: str, **params: Any) -> Request[Document]:
    """Return the request that gets a JSON document; query parameters that are None are left out."""
    return Request("GET", path, document, True, params=given(**params))


def listed(path: str, name: str, before: Sequence[Document] = (), **params: Any) -> Request[Documents]:
    """Return the request for a list in the field ``name`` of the answer; of an answer in pages, for all pages.

    The entries ``before``, which are of earlier pages, come first.
    """

    def read(answer: httpx.Response) -> Documents | Request[Documents]:
        """Return all entries after the last page; services before version 0.3 send all entries in one page."""
        found = answer.json()
        entries, following = [*before, *found[name]], found.get("next")
        return entries if following is None else listed(path, name, entries, **params | {"after": following})

    return Request("GET", path, read, True, params=given(**params))


def delete(path: str) -> Request[None]:
    """Return the request that deletes the resource at a path."""
    return Request("DELETE", path, lambda answer: None, is_repeatable=False)


def post(path: str, body: Any = None, *, is_repeatable: bool = False, **params: Any) -> Request[Document]:
    """Return a POST request, with a JSON body unless ``body`` is None."""
    content, headers = (None, {}) if body is None else json_content(body)
    return Request("POST", path, document, is_repeatable, content, headers, given(**params))


def once(path: str, body: Any, key: str | None = None, **params: Any) -> Request[Document]:
    """Return a POST request with an Idempotency-Key, so that it has one effect even if it is sent several times.

    Parameters
    ----------
    body : sent as JSON; or bytes that are sent as they are, with their headers
    """
    content, headers = body if isinstance(body, tuple) else json_content(body)
    named = {**headers, "idempotency-key": key or uuid.uuid4().hex}
    return Request("POST", path, document, True, content, named, given(**params))


def given(**values: Any) -> dict[str, Any]:
    """Return the arguments that are not None, in a mapping by name."""
    return {name: value for name, value in values.items() if value is not None}


def json_content(body: Any) -> tuple[bytes, dict[str, str]]:
    """Return a JSON body and its headers; NaN and infinities are sent, so that the service can refuse these."""
    return json.dumps(body, default=plain).encode(), {"content-type": "application/json"}


def document(answer: httpx.Response) -> Document:
    """Return the parsed JSON of an answer."""
    found: Document = answer.json()
    return found


def plain(value: Any) -> Any:
    """Convert arrays, NumPy numbers and times to values that JSON can contain."""
    if isinstance(value, date):  # datetimes and pandas' timestamps are dates
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, str | int | float | None):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be sent: {value!r}")


def _targets(values: ArrayLike | None) -> Any:
    """Convert targets to JSON values: words stay words, and all other targets become numbers."""
    import numpy as np

    found = None if values is None else np.asarray(values)
    if found is not None and found.dtype.kind in "UO":
        given = list(values) if isinstance(values, list | tuple) else found.tolist()
        return [value.item() if isinstance(value, np.generic) else value for value in given]
    return _listed(found)


def _listed(values: ArrayLike | None) -> Any:
    import numpy as np

    return None if values is None else np.asarray(values, dtype=np.float64).tolist()


def _features(X: Any) -> Document:
    """Return the field of a request that contains rows: ``X``, or ``rows`` if the rows have column names."""
    named = _named_rows(X)
    return {"X": _rows(X)} if named is None else {"rows": named}


def _named_rows(X: Any) -> list[Document] | None:
    """Return the rows in a list of mappings, or in a data frame with cells that are not numbers; None for other X."""
    if isinstance(X, list | tuple):
        rows = list(X) if X and all(isinstance(row, Mapping) for row in X) else None
    elif hasattr(X, "columns") and _has_words(X):
        names = list(X.column_names if hasattr(X, "column_names") else X.columns)
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"column {twice[0]!r} stands twice")
        frame = X.to_pylist if hasattr(X, "to_pylist") else X.to_dicts if hasattr(X, "to_dicts") else None
        rows = X.to_dict("records") if frame is None else frame()
    else:
        rows = None
    if rows is None:
        return None
    return [{name: _cell(cell, row, name) for name, cell in cells.items()} for row, cells in enumerate(rows)]


def _has_words(frame: Any) -> bool:
    import numpy as np

    return np.asarray(frame).dtype.kind not in "fiub"


def _cell(cell: Any, row: int, name: Any) -> Any:
    """Convert a cell of a table to a JSON value; a missing value becomes null, and a duration becomes seconds."""
    if type(cell).__name__ in ("NAType", "NaTType") or (not hasattr(cell, "__len__") and cell != cell):
        return None
    if type(cell).__name__ == "datetime64":
        return str(cell)
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    if isinstance(cell, Decimal | timedelta):
        return float(cell) if isinstance(cell, Decimal) else cell.total_seconds()
    if not isinstance(cell, str | int | float | date | list | dict | None):
        raise TypeError(f"row {row}, column {name!r}: a {type(cell).__name__} cannot be sent: {cell!r}")
    return cell


def _rows(X: Any) -> Any:
    """Convert rows to JSON values: a list for each dense row, or one object for all sparse rows."""
    if not hasattr(X, "tocsr"):
        return _listed(X)
    rows = _csr(X)
    ends = rows.indptr.tolist()
    parts = {
        name: [column[start:stop] for start, stop in itertools.pairwise(ends)]
        for name, column in (("indices", rows.indices.tolist()), ("values", rows.data.tolist()))
    }
    return {**parts, "n_features": rows.shape[1]}


def _tags(values: Sequence[str | Sequence[str] | None] | None) -> Any:
    return None if values is None else [one if isinstance(one, str | None) else list(one) for one in values]


def _csr(X: Any) -> Any:
    """Convert a SciPy matrix to CSR with sorted columns; duplicate entries are added up."""
    import numpy as np

    rows = X.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows.astype(np.float64)


def _times(values: Any) -> Any:
    """Convert times to JSON values; NumPy and pandas times without a time zone count as UTC."""
    import numpy as np

    if values is None:
        return None
    found = np.asarray(values)
    if found.dtype.kind == "M":
        return (found.astype("datetime64[us]").astype(np.int64) / 1e6).tolist()
    return found.tolist() if found.dtype.kind in "fiu" else [_time(value) for value in values]


def _time(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


class ModelCalls:
    """The calls about models, their jobs, datasets, receipts and files."""

    @Call
    def create_model(self, /, id: str | None = None, **spec: Any) -> Request[Document]:
        """Create a model; its settings ``spec`` are ``kernel``, ``C``, ``window``, ... as in ``POST /models``."""
        return post("/models", spec if id is None else {"id": id, **spec})

    @Call
    def models(self) -> Request[Documents]:
        """List all models, sorted by id."""
        return listed("/models", "models", limit=PAGE)

    @Call
    def model(self, id: str) -> Request[Document]:
        """Describe the present state of one model."""
        return get(f"/models/{id}")

    @Call
    def delete_model(self, id: str) -> Request[None]:
        """Delete a model, its jobs, and all of its stored data."""
        return delete(f"/models/{id}")

    @Call
    def update(
        self,
        id: str,
        X: Any = None,
        y: ArrayLike | None = None,
        *,
        keys: Sequence[Key] | NDArray[Any] | None = None,
        weights: ArrayLike | None = None,
        times: Any = None,
        tags: Sequence[str | Sequence[str] | None] | None = None,
        on_repeat: Literal["refuse", "ignore", "replace"] | None = None,
        remove: Mapping[str, Any] | None = None,
        relabel: Mapping[Key, float | str] | None = None,
        reweight: Mapping[Key, float] | None = None,
        decay: float | None = None,
        C: float | None = None,
        convex: bool = False,
        change: Mapping[str, Any] | None = None,
        rescale: bool = False,
        idempotency_key: str | None = None,
        max_seconds: float | None = None,
    ) -> Request[Document]:
        """Update a model's window along one path, completely or not at all.

        Large updates are sent as npz if npz can hold all of their values, and otherwise as JSON.

        Parameters
        ----------
        X, y, keys, weights : examples to add, (n, d), dense or of scipy.sparse, and each (n,); labels are words or
            whole numbers; no y for a one-class model. For a model with columns, X is a list of mappings, or a data
            frame with words, times or truth values; for a data frame with numbers alone, its ``to_dict("records")``
        times : (n,) time of each example, by which windows remove old ones: datetimes with a time zone, text of ISO
            8601 with one, or Unix seconds; by default the time of their arrival
        tags : (n,) one word, several, or None for each example; examples can be erased by tags
        on_repeat : for a row with a known key: ``"refuse"``, the default, answers with a problem, ``"ignore"`` leaves
            the row out, and the whole update if all rows are, ``"replace"`` replaces the example with this key
        remove : ``{"keys": [..]}``, ``{"oldest": k}`` or ``{"older_than": time}``, a datetime or a string, with a time
            zone, or Unix seconds
        relabel, reweight : target and weight by key, for examples that stay: a mapping, or a pandas series with keys as
            its index
        decay : multiplies the weights of all other examples that stay
        C : the new C of the model
        convex : whether to make a robust model's losses convex again
        change : new parameters, such as ``C``, ``epsilon``, ``gamma``, ``kernel`` or ``scale``; alone in its update
        rescale : whether to fit the scale of features to the present window; alone in its update
        max_seconds : time limit of the call; if it is exceeded, nothing is changed, and ServiceProblem says so
        """
        add: Document = {"X": X, "y": y, "keys": keys, "weights": weights, "times": times, "tags": tags}
        add["on_repeat"] = on_repeat
        verbs: Document = {"remove": remove, "relabel": relabel, "reweight": reweight, "decay": decay, "C": C}
        body = _changes(**add, **verbs, convex=convex, change=change, rescale=rescale)
        return once(f"/models/{id}/update", _packed(body) or body, idempotency_key, max_seconds=max_seconds)

    @Call
    def update_many(
        self,
        updates: Any,
        *,
        model: str = "model",
        target: str | None = None,
        keys: str | None = None,
        weights: str | None = None,
        times: str | None = None,
        on_repeat: Literal["refuse", "ignore", "replace"] | None = None,
        idempotency_key: str | None = None,
        max_seconds: float | None = None,
    ) -> Request[Document]:
        """Update many models in one call, each completely or not at all; a refused update does not affect other models.

        Parameters
        ----------
        updates : by model, what :func:`update` takes besides the model, as ``{"river": {"X": X, "y": y}}``. For models
            with columns also a data frame or Arrow table of examples to add, or one for each model, ``{"river":
            frame}``; these are sent as Arrow, by pyarrow
        model : of one table, the name of its column with the model that learns each row
        target, keys, weights, times : of tables, the names of their columns that are not features
        on_repeat : of tables, as in :func:`update`
        max_seconds : time limit of the call; models that are not updated by then stay as they are

        Returns
        -------
        document : ``updates``, in their order, each with ``model``, ``status`` and ``answer`` or ``problem``. Rows of a
            problem count the rows of its model from 0

        Raises
        ------
        ValueError : a column mixes words and numbers, with the row and column; nothing was sent
        """
        roles = given(target=target, keys=keys, weights=weights, times=times, on_repeat=on_repeat)
        if isinstance(updates, Mapping) and all(isinstance(change, Mapping) for change in updates.values()):
            if roles:
                raise TypeError(f"{', '.join(roles)}: for tables; name them in each model's update")
            body: Any = {"updates": [{"model": id, **_changes(**change)} for id, change in updates.items()]}
        else:
            from livesvm.service.client import arrow

            body, roles["model"] = arrow.of_many(updates, model), model
        return once("/updates", body, idempotency_key, **roles, max_seconds=max_seconds)

    @Call
    def predict(
        self,
        id: str,
        X: Any,
        *,
        probability: bool = False,
        alerts: float | None = None,
        precision: float | None = None,
        coverage: float | None = None,
        half_life: float | None = None,
        interval: Literal["plus", "minmax"] | None = None,
    ) -> Request[Document]:
        """Predict rows X (m, d), dense or scipy.sparse; the answer has ``version``, ``decision``, ``prediction``.

        For a model with columns, X has the same forms as in :func:`update`. If labels are not -1 and 1, the answer has
        ``classes``; with more than two classes, ``decision`` has shape (m, k). With ``probability``, the answer also
        has probabilities (m, n_classes). Models of task ``pu`` choose a ``threshold`` for decision values: either at
        most a share ``alerts`` of the unlabelled examples is above the threshold, or at least a share ``precision`` of
        the examples above the threshold is positive.

        With ``coverage``, classifiers return a ``set`` of classes for each row, and regression models an interval from
        ``low`` to ``high``; ``promise`` is the share of targets that these sets or intervals contain. With
        ``half_life`` in seconds, older examples have less influence on the sets or intervals.
        """
        import numpy as np

        asked = {"probability": "true" if probability else None, "alerts": alerts, "precision": precision}
        asked |= {"coverage": coverage, "half_life": half_life, "interval": interval}
        params = {name: str(value) for name, value in given(**asked).items()}
        stream = io.BytesIO()
        if (named := _named_rows(X)) is not None:
            content, headers = json_content({"rows": named})
            return Request("POST", f"/models/{id}/predict", document, True, content, headers, params)
        if hasattr(X, "tocsr"):
            rows = _csr(X)
            members = {"indptr": rows.indptr, "indices": rows.indices, "values": rows.data}
            np.savez(stream, n_features=rows.shape[1], **members)
            headers = {"content-type": "application/x-npz"}
        else:
            np.save(stream, np.asarray(X, dtype=np.float64), allow_pickle=False)
            headers = {"content-type": "application/x-npy"}
        return Request("POST", f"/models/{id}/predict", document, True, stream.getvalue(), headers, params)

    @Call
    def erase(
        self, id: str, keys: Sequence[Key] = (), *, tags: Sequence[str] = (), idempotency_key: str | None = None
    ) -> Request[Document]:
        """Erase examples by key or tag from a model and all stored data; the answer has ``removed``, ``receipt``, ...

        The examples need not be in the window. ServiceProblem (404) is raised if no stored data contain any of the keys
        and tags.
        """
        return once(f"/models/{id}/erase", _named(keys, tags), idempotency_key)

    @Call
    def erase_everywhere(
        self, keys: Sequence[Key] = (), *, tags: Sequence[str] = (), idempotency_key: str | None = None
    ) -> Request[Document]:
        """Erase examples by key or tag from all models, feeds and datasets; the answer has ``erased``, ``receipt``, ...

        If no stored data contain any of these keys and tags, ServiceProblem (404) is raised.
        """
        return once("/erase", _named(keys, tags), idempotency_key)

    @Call
    def verify_receipt(self, receipt: bytes | Document) -> Request[Document]:
        """Verify a receipt, a document or bytes; ``verified`` says if it is unchanged since a service signed it."""
        if isinstance(receipt, bytes):
            return Request("POST", "/receipts/verify", document, True, receipt, {"content-type": "application/json"})
        return post("/receipts/verify", receipt, is_repeatable=True)

    @Call
    def receipts(self) -> Request[Documents]:
        """List all stored receipts of erasures."""
        return listed("/receipts", "receipts")

    @Call
    def receipt_key(self) -> Request[Document]:
        """Return the service's ``public_key``, which verifies receipts, and its ``earlier`` public keys."""
        return get("/receipts/key")

    @Call
    def what_if(
        self,
        /,
        id: str,
        rows: Any = None,
        *,
        erase: Mapping[str, Sequence[Key]] | None = None,
        max_seconds: float | None = None,
        **change: Any,
    ) -> Request[Document]:
        """Try a change on a copy of a model; the answer has the copy's ``certificate``, ``window``, ``rows``, ...

        Parameters
        ----------
        rows : (m, d), dense or of scipy.sparse; the answer has their decisions before and after the change
        erase : ``{"keys": [..], "tags": [..]}``, either or both, of examples that would be erased
        change : arguments of :func:`update`, if ``erase`` is None
        """
        body: Document = _changes(**change) if erase is None else {"erase": dict(erase)}
        if rows is not None:
            body |= _features(rows)
        return post(f"/models/{id}/what-if", body, is_repeatable=True, max_seconds=max_seconds)

    @Call
    def explain(
        self, id: str, X: Any, y: ArrayLike | None = None, *, most: int = 10, max_seconds: float | None = None
    ) -> Request[Document]:
        """Return for each of the rows X (m, d) the examples with the largest influence on the row's decision value.

        The answer has ``rows``, each with its examples in ``because``. With targets y (m,), the answer has
        ``values`` instead: how much the mean loss over the rows would grow if the model were trained without the
        example. The examples with the smallest values, which are the most harmful, come first.
        """
        body: Document = {**_features(X), "most": most} | ({} if y is None else {"y": _targets(y)})
        return post(f"/models/{id}/explain", body, is_repeatable=True, max_seconds=max_seconds)

    @Call
    def drift(
        self, id: str, *, false_alarms: float | None = None, newest: int | None = None, max_seconds: float | None = None
    ) -> Request[Document]:
        """Test a model's window for drift and compare remedies; the answer has ``alarm``, ``remedies``, ``remedy``, ...

        ``remedy["update"]`` contains the arguments with which :func:`update` applies the best remedy; ``remedy`` is
        None if no remedy helps significantly.

        Parameters
        ----------
        false_alarms : largest probability of an alarm where nothing has changed; as the model is watched, or 0.01
        newest : number of the newest examples, by which remedies are judged
        """
        return get(f"/models/{id}/drift", false_alarms=false_alarms, newest=newest, max_seconds=max_seconds)

    @Call
    def certificate(self, id: str, *, max_seconds: float | None = None) -> Request[Document]:
        """Return the certificate of a model's newest version, which proves that the model is optimal."""
        return get(f"/models/{id}/certificate", max_seconds=max_seconds)

    @Call
    def recent_updates(self, id: str) -> Request[Documents]:
        """Return what a model's newest updates did, and how long they took, newest first."""
        return listed(f"/models/{id}/recent", "updates")

    @Call
    def checkpoint(self, id: str) -> Request[Document]:
        """Write a snapshot of a model."""
        return post(f"/models/{id}/checkpoint", is_repeatable=True)

    @Call
    def write_back(self, id: str) -> Request[Document]:
        """Write a model from memory back to a store that has lost it; the answer has ``version``, ``written``, ..."""
        return post(f"/models/{id}/writeback", is_repeatable=True)

    @Call
    def examples(
        self, id: str, keys: Sequence[Key] | None = None, *, offset: int = 0, limit: int | None = None
    ) -> Request[Document]:
        """Return a page of the ``examples`` in a model's window, and ``next``, the offset of the next page.

        Parameters
        ----------
        keys : only these; else a page, oldest first, of at most ``limit`` from ``offset`` on
        """
        params: dict[str, Any] = {"offset": offset} if keys is None else {"keys": [str(key) for key in keys]}
        return get(f"/models/{id}/examples", **params, limit=limit)

    @Call
    def versions(self, id: str) -> Request[Document]:
        """Return a model's ``snapshots``, and its versions that can be restored: from ``oldest`` to ``current``."""
        return get(f"/models/{id}/versions")

    @Call
    def restore(self, id: str, version: int, *, max_seconds: float | None = None) -> Request[Document]:
        """Restore an earlier version of a model, as a new version."""
        return once(f"/models/{id}/restore", {"version": version}, max_seconds=max_seconds)

    @Call
    def assess(self, id: str, folds: int | None = None) -> Request[Document]:
        """Start a job for the exact leave-one-out or k-fold decisions of the examples in a model's window."""
        body = {"method": "leave-one-out"} if folds is None else {"method": "k-fold", "folds": folds}
        return post(f"/models/{id}/assessment", body)

    @Call
    def regularization_path(
        self,
        id: str,
        minimum: float | None = None,
        maximum: float | None = None,
        *,
        parameter: str | None = None,
        validation: tuple[Any, ArrayLike | None] | None = None,
        data: tuple[Any, ArrayLike | None] | None = None,
    ) -> Request[Document]:
        """Start a job that computes the whole regularization path for a model's window or for other ``data`` (X, y)."""
        examples = {"validation": validation, "data": data}
        body: Document = {"parameter": parameter, "minimum": minimum, "maximum": maximum}
        body |= {name: given and {**_features(given[0]), "y": _targets(given[1])} for name, given in examples.items()}
        return post(f"/models/{id}/regularization-path", body)

    @Call
    def suspected_labels(self, id: str, *, confirmed: Iterable[Key] = ()) -> Request[Document]:
        """Start a job that ranks the labels in a model's window, with the most doubtful label first.

        The ranking leaves out the examples with the keys ``confirmed``, which have right labels. The result lists the
        confirmed keys, to send with the next request.
        """
        keys = list(confirmed)
        return post(f"/models/{id}/suspected-labels", {"confirmed": {"keys": keys}} if keys else {})

    @Call
    def suspects(self, id: str, *, offset: int = 0, limit: int | None = None) -> Request[Document]:
        """Return a page of the ``suspects`` in a model's newest ranking of labels, and the ``next`` page's offset."""
        return get(f"/models/{id}/suspected-labels", offset=offset, limit=limit)

    @Call
    def outlier_path(
        self,
        id: str,
        parameter: Literal["theta", "s"] = "theta",
        *,
        theta: float = 0.0,
        s: float | None = None,
        validation: tuple[Any, ArrayLike] | None = None,
        hold_out: float | None = None,
    ) -> Request[Document]:
        """Start a job that finds possibly wrong labels or targets in a model's window, and computes robust models."""
        body: Document = {"parameter": parameter, "theta": theta, "s": s, "hold_out": hold_out}
        body["validation"] = validation and {**_features(validation[0]), "y": _targets(validation[1])}
        return post(f"/models/{id}/outlier-path", body)

    @Call
    def tune_model(
        self,
        id: str,
        *,
        gammas: Sequence[float] | None = None,
        C: tuple[float, float] | None = None,
        epsilon: tuple[float, float] | None = None,
        judge: Literal["k-fold", "leave-one-out", "rolling-origin", "evidence"] | None = None,
        folds: int | None = None,
    ) -> Request[Document]:
        """Start a job that finds the best gamma, C and epsilon for a model's window; ``apply`` sets these."""
        return post(f"/models/{id}/tune", given(gammas=gammas, C=C, epsilon=epsilon, judge=judge, folds=folds))

    @Call
    def apply(self, /, job: str, *, max_seconds: float | None = None, **choice: Any) -> Request[Document]:
        """Apply a job's result to its model; ``choice``, such as ``C=2.0``, selects a part of some kinds of results."""
        return once(f"/jobs/{job}/apply", {"choice": choice}, max_seconds=max_seconds)

    @Call
    def plot(self, job: str, extension: Literal["svg", "png"] = "svg") -> Request[bytes]:
        """Return a plot of a job's result as an image."""
        return Request("GET", f"/jobs/{job}/plot.{extension}", lambda answer: answer.content, is_repeatable=True)

    @Call
    def job(self, job: str) -> Request[Document]:
        """Return the present state of one job, with its result if it is done."""
        return get(f"/jobs/{job}")

    @Call
    def jobs(self) -> Request[Document]:
        """List all jobs, oldest first, in ``jobs``, without results; ``unanswered`` names front ends that are away."""
        return get("/jobs")

    @Call
    def cancel(self, job: str) -> Request[Document]:
        """Stop an unfinished job at its next step, or delete a finished job and its result."""
        return Request("DELETE", f"/jobs/{job}", document, is_repeatable=False)

    @Call
    def put_dataset(
        self,
        /,
        name: str,
        data: bytes | Path,
        format: str,
        *,
        target: str | None = None,
        weights: str | None = None,
        key: str | None = None,
        columns: Literal["auto"] | Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> Request[Document]:
        """Store a dataset; a stored dataset with the same name is replaced.

        Parameters
        ----------
        data : its bytes, or the file that holds them, which is read as it is sent
        format : "npz", "svmlight", "csv" or "parquet"
        target, weights, key : columns of a table that have them, by name or by number from 0; a key names an owner
        columns : "auto" for a table with words, times and missing cells, or a mapping with name and kind for each
            column
        options : ``separator``, ``decimal``, ``encoding``, ``skip``, ``header`` of a csv file; what is absent is found
        """
        digest = hashlib.sha256()
        for piece in pieces(data) if isinstance(data, Path) else (data,):
            digest.update(piece)
        headers = {"content-type": DATASET_MEDIA[format], "x-content-sha256": digest.hexdigest()}
        of_table = columns if columns is None or isinstance(columns, str) else json.dumps([*columns])
        params = given(target=target, weights=weights, key=key, columns=of_table, **options)
        return Request("PUT", f"/datasets/{name}", document, True, data, headers, params)

    @Call
    def inspect(self, /, data: bytes | Path, name: str | None = None, **options: Any) -> Request[Document]:
        """Return how the service reads a file of readings or examples; the answer has ``columns``, ``rows``, ...

        Parameters
        ----------
        data : its bytes, or the file, which is read as it is sent
        name : of the file, where bytes are sent
        options : ``separator``, ``decimal``, ``time``, ``zone``, ... as in ``POST /inspect``; what is absent is found
        """
        named = name or (data.name if isinstance(data, Path) else "file")
        headers = {"content-type": "application/octet-stream"}
        return Request("POST", "/inspect", document, True, data, headers, given(name=named, **options))

    @Call
    def datasets(self) -> Request[Documents]:
        """List all datasets."""
        return listed("/datasets", "datasets")

    @Call
    def dataset(self, name: str) -> Request[Document]:
        """Describe one dataset."""
        return get(f"/datasets/{name}")

    @Call
    def delete_dataset(self, name: str) -> Request[None]:
        """Delete a dataset."""
        return delete(f"/datasets/{name}")

    @Call
    def retrain(self, /, id: str, solver: str = "auto", **asked: Any) -> Request[Document]:
        """Start a job that retrains a model in its own process; ``asked`` is as in ``POST /models/{id}/retrain``."""
        return post(f"/models/{id}/retrain", {"solver": solver, **asked})
