"""Files that are sent to be understood: the answer of the command, rows as they are sent, and what is refused."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
from pathlib import Path

import httpx
import pytest

from livesvm.service.client import AsyncClient, Client, ServiceProblem
from tests.service.conftest import Told
from tests.service.process import ServiceProcess
from tests.support.raw_exports import exports
from tests.support.raw_files import files, zipped

FILES = {one.name: one for one in [*files(), *exports()]}


@pytest.mark.parametrize("name", ["two meters.xml", "local.csv"])
def test_the_service_answers_as_the_command_does(
    name: str, service: ServiceProcess, reported: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw, path = FILES[name], tmp_path / name.replace(" ", "-")
    path.write_bytes(raw.content)
    monkeypatch.chdir(tmp_path)
    options = raw.options or {}
    said = reported("inspect", path.name, *(word for key, one in options.items() for word in (f"--{key}", one)))
    with Client(service.url) as client:
        assert client.inspect(path, **options) == said
        with pytest.raises(ServiceProblem, match="no column 'nothing'"):
            client.inspect(raw.content, path.name, time="nothing")

    async def later() -> None:
        async with AsyncClient(service.url) as client:
            assert await client.inspect(path, **options) == said

    asyncio.run(later())
    assert not [*(service.data_dir / "datasets").glob("d-*")]


def test_rows_come_as_they_are_sent(http: httpx.Client) -> None:
    raw = FILES["latin-1.csv"]
    answer = http.post("/inspect?zone=Europe/Berlin", content=raw.content, headers={"accept": "text/csv"})
    names, *rows = csv.reader(io.StringIO(answer.text))
    assert (answer.headers["content-type"].partition(";")[0], names, len(rows)) == (
        "text/csv",
        [raw.time, raw.target],
        60,
    )
    assert rows[0] == ["2024-01-01T00:00:00+01:00", "20.00"]
    assert http.post("/inspect", content=raw.content).json()["every"] == "1h"
    text = "seit;plan;geht\n31.01.2024;unknown;ja\n31.01.2024;free;nein\n31.01.2024;free;nein\n"
    answer = http.post("/inspect?examples=true", content=text.encode(), headers={"accept": "text/csv"})
    assert answer.text.splitlines()[1] == "2024-01-31T00:00:00,unknown,ja"
    found = http.post("/inspect?name=kunden.csv", content=text.encode()).json()
    assert "several rows have the time" in found["understood"]["as readings"]
    assert found["commands"] == ["livesvm models create kunden --csv kunden.csv --target geht"]


def test_a_file_of_a_zip_is_named(http: httpx.Client, tmp_path: Path) -> None:
    raw = FILES["latin-1.csv"]
    both = zipped(tmp_path / "x.zip", ("a.csv", raw.content), ("b.csv", raw.content)).read_bytes()
    answer = http.post("/inspect?name=x.zip", content=both)
    assert (answer.status_code, answer.json()["field"].rpartition(".")[2]) == (422, "member")
    assert "packs 2 files: a.csv, b.csv; say --member" in answer.json()["detail"]
    found = http.post("/inspect?name=x.zip&member=b.csv", content=both).json()
    assert found["understood"]["file of the zip"] == "b.csv; --member takes another"
    assert found["commands"][1].endswith(" x.zip --member b.csv")


@pytest.mark.parametrize(
    ("query", "content", "status", "field", "said"),
    [
        ("", b"", 422, "body", "is empty"),
        ("", b"t;v\n01/02/2024;1,5\n03/04/2024;2,5\n", 422, "time_format", "--time-format"),
        ("?time=a", b"t,v\n2024-01-01,1\n", 422, "time", "has no column 'a'"),
        ("?separator=ab", b"t,v\n2024-01-01,1\n", 422, "separator", ""),
        ("?decimal=x", b"t,v\n2024-01-01,1\n", 422, "decimal", ""),
        ("?name=a.parquet", b"PAR1" + b"x" * 99, 422, "body", "parquet"),
    ],
)
def test_what_is_not_understood_names_the_parameter(
    query: str, content: bytes, status: int, field: str, said: str, http: httpx.Client
) -> None:
    answer = http.post(f"/inspect{query}", content=content)
    assert answer.status_code == status, answer.text
    assert field in (answer.json().get("field", "").rpartition(".")[2], *answer.json()["detail"].split("/"))
    assert said in answer.json()["detail"]


def test_bombs_are_refused_and_the_service_goes_on(http: httpx.Client) -> None:
    packed = gzip.compress(bytes(2**27))
    assert http.post("/inspect", content=packed).status_code == 422
    wide = http.post("/inspect?name=a.json", content=json.dumps([{f"c{at}": 1} for at in range(7000)]).encode())
    assert "7000 different names" in wide.json()["detail"]
    assert http.get("/health/ready").is_success
