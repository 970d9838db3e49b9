"""A client of the service's REST API, for Python programs.

with Client("http://127.0.0.1:8000") as client:
    client.create_model("river", C=10.0, kernel={"name": "rbf", "gamma": 0.1}, window={"max_examples": 365})
    client.update("river", X, y)
    client.predict("river", X_new)["decision"]
"""

from __future__ import annotations

import hashlib
import io
import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import httpx
import numpy as np
from numpy.typing import ArrayLike, NDArray

Key = int | str | np.integer[Any]

_REPEATABLE = ("/update", "/predict", "/checkpoint", "/writeback", "/restore", "/apply")
"""Ends of calls that have one effect however often they are made."""


__all__ = ["Client", "ServiceProblem"]


DATASET_MEDIA = {
    "npz": "application/x-npz",
    "svmlight": "text/x-svmlight",
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
}
"""Formats of datasets, as the service is told of them."""


class ServiceProblem(Exception):
    """The service refused: ``status``, ``type``, and the whole problem document in ``document``."""

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        self.status = status
        self.document = document
        self.type = str(document.get("type", "about:blank"))
        super().__init__(f"{status} {document.get('title', '')}: {document.get('detail', '')}")


class Client:
    """Calls one service; safe to share between threads.

    Parameters
    ----------
    url : of the service
    api_key : sent as a bearer token when given
    timeout : seconds that one try may take
    patience : seconds for which a call that was refused as too busy or cut off is tried again; every update carries an
        Idempotency-Key, so that trying again has one effect
    """

    def __init__(self, url: str, api_key: str | None = None, *, timeout: float = 30.0, patience: float = 10.0) -> None:
        headers = {"authorization": f"Bearer {api_key}"} if api_key is not None else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False)
        self._patience = patience

    def create_model(self, id: str | None = None, **spec: Any) -> dict[str, Any]:
        """Create a model; ``spec`` holds ``kernel``, ``C``, ``window``, ... as in ``POST /models``."""
        body = spec if id is None else {"id": id, **spec}
        return self._json("POST", "/models", body=body)

    def models(self) -> list[dict[str, Any]]:
        """Describe every model."""
        found: list[dict[str, Any]] = self._json("GET", "/models")["models"]
        return found

    def model(self, id: str) -> dict[str, Any]:
        """Describe one model."""
        return self._json("GET", f"/models/{id}")

    def delete_model(self, id: str) -> None:
        """Delete a model."""
        self._call("DELETE", f"/models/{id}")

    def update(
        self,
        id: str,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        *,
        keys: Sequence[Key] | NDArray[Any] | None = None,
        weights: ArrayLike | None = None,
        remove: Mapping[str, Any] | None = None,
        relabel: Mapping[Key, float] | None = None,
        reweight: Mapping[Key, float] | None = None,
        decay: float | None = None,
        C: float | None = None,
        idempotency_key: str | None = None,
        max_seconds: float | None = None,
    ) -> dict[str, Any]:
        """Change a model's window along one path, whole or not at all.

        Parameters
        ----------
        X, y, keys, weights : examples to add, (n, d) and each (n,); no y for a one-class model
        remove : ``{"keys": [..]}``, ``{"oldest": k}`` or ``{"older_than": time}``, a datetime or a string, with a time
            zone
        relabel, reweight : target and weight by key, for examples that stay
        decay : multiplies the weights of all other examples that stay
        C : from now on the model's C
        max_seconds : until the answer has to be there; past it nothing is changed, and ServiceProblem says so
        """
        body: dict[str, Any] = {name: value for name, value in (("decay", decay), ("C", C)) if value is not None}
        if X is not None:
            add = {"X": _listed(X), "y": _listed(y), "keys": keys, "weights": _listed(weights)}
            body["add"] = {name: value for name, value in add.items() if value is not None}
        if remove is not None:
            body["remove"] = dict(remove)
        if relabel is not None:
            body["relabel"] = {"keys": list(relabel), "y": _listed(list(relabel.values()))}
        if reweight is not None:
            body["reweight"] = {"keys": list(reweight), "weights": _listed(list(reweight.values()))}
        headers = {"idempotency-key": idempotency_key or uuid.uuid4().hex}
        params = {} if max_seconds is None else {"max_seconds": max_seconds}
        return self._json("POST", f"/models/{id}/update", body=body, headers=headers, params=params)

    def predict(self, id: str, X: ArrayLike) -> dict[str, Any]:
        """Predict rows X (m, d): ``version``, ``decision`` (m), ``prediction`` (m)."""
        stream = io.BytesIO()
        np.save(stream, np.asarray(X, dtype=np.float64), allow_pickle=False)
        headers = {"content-type": "application/x-npy"}
        return self._json("POST", f"/models/{id}/predict", content=stream.getvalue(), headers=headers)

    def certificate(self, id: str) -> dict[str, Any]:
        """The certificate of the newest version."""
        return self._json("GET", f"/models/{id}/certificate")

    def checkpoint(self, id: str) -> dict[str, Any]:
        """Write a snapshot."""
        return self._json("POST", f"/models/{id}/checkpoint")

    def write_back(self, id: str) -> dict[str, Any]:
        """Have the store hold a model again that it has lost, as memory has it: ``version``, ``written``."""
        return self._json("POST", f"/models/{id}/writeback")

    def versions(self, id: str) -> dict[str, Any]:
        """Which versions can be restored: ``current``, ``oldest``, ``snapshots``."""
        return self._json("GET", f"/models/{id}/versions")

    def restore(self, id: str, version: int) -> dict[str, Any]:
        """Make an earlier version of a model its next one."""
        headers = {"idempotency-key": uuid.uuid4().hex}
        return self._json("POST", f"/models/{id}/restore", body={"version": version}, headers=headers)

    def assess(self, id: str, folds: int | None = None) -> dict[str, Any]:
        """Ask for the exact leave-one-out decisions of a model's window, or for those of so many folds: a job."""
        body = {"method": "leave-one-out"} if folds is None else {"method": "k-fold", "folds": folds}
        return self._json("POST", f"/models/{id}/assessment", body=body)

    def regularization_path(
        self,
        id: str,
        minimum: float | None = None,
        maximum: float | None = None,
        *,
        parameter: str | None = None,
        validation: tuple[ArrayLike, ArrayLike | None] | None = None,
        data: tuple[ArrayLike, ArrayLike | None] | None = None,
    ) -> dict[str, Any]:
        """Ask for the whole path of a model's window, or of other ``data`` (X, y): a job."""
        examples = {"validation": validation, "data": data}
        body: dict[str, Any] = {"parameter": parameter, "minimum": minimum, "maximum": maximum}
        body |= {name: given and {"X": _listed(given[0]), "y": _listed(given[1])} for name, given in examples.items()}
        return self._json("POST", f"/models/{id}/regularization-path", body=body)

    def outlier_path(
        self,
        id: str,
        parameter: Literal["theta", "s"] = "theta",
        *,
        theta: float = 0.0,
        s: float | None = None,
        validation: tuple[ArrayLike, ArrayLike] | None = None,
        hold_out: float | None = None,
    ) -> dict[str, Any]:
        """Ask which labels or targets of a model's window look wrong, and for robust models: a job."""
        body: dict[str, Any] = {"parameter": parameter, "theta": theta, "s": s, "hold_out": hold_out}
        body["validation"] = validation and {"X": _listed(validation[0]), "y": _listed(validation[1])}
        return self._json("POST", f"/models/{id}/outlier-path", body=body)

    def apply(self, job: str, **choice: Any) -> dict[str, Any]:
        """Bring what a job found into its live model; ``choice`` as its kind says, such as ``C=2.0``."""
        headers = {"idempotency-key": uuid.uuid4().hex}
        return self._json("POST", f"/jobs/{job}/apply", body={"choice": choice}, headers=headers)

    def plot(self, job: str, extension: Literal["svg", "png"] = "svg") -> bytes:
        """A picture of a job's result."""
        return self._call("GET", f"/jobs/{job}/plot.{extension}").content

    def job(self, job: str) -> dict[str, Any]:
        """One job as it is now, with its result when it is done."""
        return self._json("GET", f"/jobs/{job}")

    def wait(self, job: str) -> dict[str, Any]:
        """The job once it is done or cancelled; raises ServiceProblem if it has failed."""
        while (found := self.job(job))["state"] in ("queued", "running"):
            self._watch(job)
        if found["state"] == "failed":
            raise ServiceProblem(int(found["error"]["status"]), found["error"])
        return found

    def _watch(self, job: str) -> None:
        """Return when the stream of a job's events ends, or when there is none to be had."""
        with suppress(httpx.TransportError), self._http.stream("GET", f"/jobs/{job}/events", timeout=60.0) as events:
            if not events.is_success:
                time.sleep(1.0)
            for _ in events.iter_raw():
                pass

    def cancel(self, job: str) -> dict[str, Any]:
        """Have a job stop at its next step."""
        return self._json("DELETE", f"/jobs/{job}")

    def put_dataset(
        self, name: str, data: bytes | Path, format: str, *, target: str | None = None, weights: str | None = None
    ) -> dict[str, Any]:
        """Keep a dataset, in place of one of that name.

        Parameters
        ----------
        data : its bytes, or the file that holds them, which is read as it is sent
        format : "npz", "svmlight", "csv" or "parquet"
        target, weights : of a table, the columns that hold them, by name or by number from 0
        """
        digest, sent = hashlib.sha256(), data if isinstance(data, bytes) else None
        for piece in [sent] if sent is not None else _pieces(Path(str(data))):
            digest.update(piece)
        headers = {"content-type": DATASET_MEDIA[format], "x-content-sha256": digest.hexdigest()}
        params = {name: value for name, value in (("target", target), ("weights", weights)) if value is not None}
        content = (lambda: sent) if sent is not None else (lambda: _pieces(Path(str(data))))
        found: dict[str, Any] = self._call(
            "PUT", f"/datasets/{name}", headers=headers, params=params, content=content
        ).json()
        return found

    def datasets(self) -> list[dict[str, Any]]:
        """Describe every dataset."""
        found: list[dict[str, Any]] = self._json("GET", "/datasets")["datasets"]
        return found

    def dataset(self, name: str) -> dict[str, Any]:
        """Describe one dataset."""
        return self._json("GET", f"/datasets/{name}")

    def delete_dataset(self, name: str) -> None:
        """Delete a dataset."""
        self._call("DELETE", f"/datasets/{name}")

    def retrain(self, id: str, solver: str = "auto", **asked: Any) -> dict[str, Any]:
        """Retrain a model beside the service; ``asked`` as in ``POST /models/{id}/retrain``. Returns the job."""
        return self._json("POST", f"/models/{id}/retrain", body={"solver": solver, **asked})

    def is_ready(self) -> bool:
        """Whether the service can do its work now."""
        try:
            return self._http.get("/health/ready").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _json(self, method: str, path: str, *, body: Any = None, **request: Any) -> dict[str, Any]:
        if body is not None:  # numbers that are none are for the service to refuse: it says where they are
            request["content"] = json.dumps(body, default=_plain)
            request["headers"] = {"content-type": "application/json", **request.get("headers", {})}
        answer: dict[str, Any] = self._call(method, path, **request).json()
        return answer

    def _call(self, method: str, path: str, **request: Any) -> httpx.Response:
        """One call, tried again while the service is busy and patience lasts; raises ServiceProblem."""
        end = time.monotonic() + self._patience
        may_repeat = method in ("GET", "PUT") or path.endswith(
            ("/update", "/predict", "/checkpoint", "/writeback", "/restore", "/apply")
        )
        while True:
            try:
                sent = {"content": request["content"]()} if callable(request.get("content")) else {}
                response = self._http.request(method, path, **(request | sent))
            except httpx.TransportError:
                if not may_repeat or time.monotonic() >= end:
                    raise
                time.sleep(0.2)
                continue
            is_busy = response.status_code == 429 or (response.status_code == 503 and may_repeat)
            if is_busy and time.monotonic() < end:
                time.sleep(_pause(response))
                continue
            if response.is_success:
                return response
            raise _problem_of(response)


def _pieces(path: Path) -> Iterator[bytes]:
    """The bytes of a file, a megabyte at a time."""
    with path.open("rb") as file:
        while piece := file.read(2**20):
            yield piece


def _pause(response: httpx.Response) -> float:
    """The seconds that an answer says to wait, at most one; one where it says none, or a date, as proxies may."""
    try:
        said = float(response.headers.get("retry-after", 1))
    except ValueError:
        return 1.0
    return said if 0 <= said <= 1 else 1.0


def _problem_of(response: httpx.Response) -> ServiceProblem:
    try:
        document = response.json()
    except ValueError:
        document = None
    is_problem = isinstance(document, dict)  # what stands between may answer otherwise
    return ServiceProblem(response.status_code, document if is_problem else {"detail": response.text})


def _plain(value: Any) -> Any:
    """What JSON can say of arrays, numpy's numbers and times."""
    if isinstance(value, datetime):
        return value.isoformat()
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} cannot be sent: {value!r}")


def _listed(values: ArrayLike | None) -> Any:
    return None if values is None else np.asarray(values, dtype=np.float64).tolist()
