"""The command line: what it sends, what it prints, its exit codes, and that a start does not wait for it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from functools import partialmethod
from pathlib import Path
from typing import Any, get_args

import httpx
import numpy as np
import pytest
import typer

from livesvm.service.access.keys import new_key
from livesvm.service.cli import connection, files
from livesvm.service.cli.main import main
from livesvm.service.cli.models import COLUMNS
from livesvm.service.client import Client
from livesvm.service.models.spec import KernelSpec
from livesvm.service.models.tasks import TASKS
from livesvm.solvers.errors import InvalidInput
from tests.service.conftest import Make, Told
from tests.service.process import ServiceProcess, blobs


def written(directory: Path, kind: str, X: list[list[float]], **columns: list[Any]) -> Path:
    """Write examples to a file of a kind."""
    path = directory / f"examples.{kind}"
    if kind == "npz":
        members: dict[str, Any] = {name: np.array(values) for name, values in columns.items()}
        np.savez(path, X=np.array(X), **members)
    elif kind == "json":
        path.write_text(json.dumps({"X": X, **columns}))
    else:
        singular = {"keys": "key", "weights": "weight", "y": "y", "tags": "tags"}
        names = [f"x{number}" for number in range(len(X[0]))] + [singular[name] for name in columns]
        rows = [[*row, *(column[number] for column in columns.values())] for number, row in enumerate(X)]
        path.write_text("\n".join(",".join(map(str, row)) for row in [names, *rows]) + "\n")
    return path


def test_a_model_from_its_making_to_its_end(reported: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = blobs(np.random.default_rng(0), 30)
    made = reported("models", "create", "cli-model", "--C", 10, "--kernel", "rbf", "--gamma", 0.5, "--max-examples", 30)
    assert (made["C"], made["kernel"]["gamma"], made["window"]["max_examples"]) == (10.0, 0.5, 30)
    answer = reported("update", "cli-model", written(tmp_path, "csv", X, y=y))
    assert (answer["n_examples"], answer["removed"]) == (30, [])
    assert reported("update", "cli-model", "--remove-oldest", 2, "--C", 5)["removed"] == [0, 1]
    assert reported("update", "cli-model", "--remove", 7, "--remove", 8)["removed"] == [7, 8]
    file = written(tmp_path, "json", X[:2], y=y[:2], keys=[7, 9])
    answer = reported("update", "cli-model", file, "--on-repeat", "ignore")
    assert (answer["added"], answer["ignored"]) == ([7], [9])
    assert reported("update", "cli-model", "--remove", 7)["removed"] == [7]
    assert reported("models", "show", "cli-model")["C"] == 5.0
    assert "cli-model" in [model["id"] for model in reported("models", "list")]
    found = reported("predict", "cli-model", written(tmp_path, "npz", X), "--output", tmp_path / "out.csv")
    lines = (tmp_path / "out.csv").read_text().split()
    assert lines[0] == "decision,prediction"
    assert [float(line.split(",")[0]) for line in lines[1:]] == found["decision"]
    then = reported("what-if", "cli-model", "--remove-oldest", 3, "--rows", written(tmp_path, "npz", X))
    assert (then["removed"], then["rows"]["before"]["decision"]) == ([2, 3, 4], found["decision"])
    assert reported("what-if", "cli-model", "--erase", 9, "--erase-tag", "nobody")["removed"] == [9]
    why = reported("explain", "cli-model", written(tmp_path, "npz", X[:2]), "--most", 3)
    assert [len(row["because"]) for row in why["rows"]] == [3, 3]
    worth = reported("explain", "cli-model", written(tmp_path, "csv", X, y=y), "--worth")["values"]
    assert worth == sorted(worth, key=lambda one: one["value"])
    assert main(["explain", "cli-model", str(written(tmp_path, "npz", X[:2]))]) == 0
    capsys.readouterr()
    assert main(["what-if", "cli-model", "--erase", "9", "--C", "3"]) == 2
    sure = reported("predict", "cli-model", written(tmp_path, "npz", X), "--coverage", 0.8)
    assert (len(sure["set"]), sure["decision"]) == (30, found["decision"])
    assert main(["predict", "cli-model", str(written(tmp_path, "npz", X)), "--coverage", "0.8"]) == 0
    assert "set" in capsys.readouterr().out
    turned = written(tmp_path, "csv", X * 3, y=y * 2 + [-label for label in y])
    reported("models", "create", "cli-drift", "--gamma", 0.5, "--drift-alarms", 0.01)
    reported("update", "cli-drift", turned)
    looked = reported("drift", "cli-drift", "--newest", 30, "--apply")
    assert looked["applied"]["n_examples"] == looked["remedy"]["value"]
    assert main(["drift", "cli-drift"]) == 0
    assert "proposed" in capsys.readouterr().out
    reported("predict", "cli-model", written(tmp_path, "npz", X), "--coverage", 0.8, "--output", tmp_path / "sure.csv")
    assert (tmp_path / "sure.csv").read_text().splitlines()[0] == "decision,prediction,set"
    assert reported("certificate", "cli-model")["relative_gap"] <= 1e-8
    assert main(["models", "list"]) == 0
    assert "cli-model" in capsys.readouterr().out
    assert main(["models", "show", "cli-model"]) == 0
    capsys.readouterr()
    assert reported("models", "delete", "cli-model", "--yes") == {"deleted": "cli-model"}
    assert main(["models", "show", "cli-model"]) == 1
    assert "There is no such model" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["npz", "csv", "json"])
def test_files_of_every_kind_say_the_same(kind: str, tmp_path: Path) -> None:
    X, y, keys, weights = [[0.5, 1.0], [1.5, -2.0]], [1, -1], ["a", "7b"], [1.0, 0.25]
    found = files.read(written(tmp_path, kind, X, y=y, keys=keys, weights=weights))
    assert (found.X.tolist(), found.keys) == (X, keys)
    assert found.y is not None
    assert found.weights is not None
    assert (found.y.tolist(), found.weights.tolist()) == (y, weights)
    bare = files.read(written(tmp_path, kind, X))
    assert (bare.X.tolist(), bare.y, bare.keys, bare.weights) == (X, None, None, None)


@pytest.mark.parametrize(("text", "key"), [("7", 7), ("07", "07"), ("a", "a"), ("-7", "-7"), ("0", 0)])
def test_keys_are_numbers_where_they_are_written_so(text: str, key: int | str) -> None:
    assert files.as_key(text) == key


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "x,y\n1\n"),
        ("a.csv", "x\none\n"),
        ("a.csv", ""),
        ("a.json", "{}"),
        ("a.json", "{"),
        ("a.txt", ""),
        ("b.csv", None),
    ],
)
def test_a_file_that_cannot_be_read_is_named(
    name: str, text: str | None, service: ServiceProcess, make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    assert main(["update", make(), str(tmp_path / name), "--url", service.url]) == 1
    error = capsys.readouterr().err
    assert name in error
    assert "Traceback" not in error


@pytest.mark.parametrize("labels", [("no", "yes"), (0, 1)])
def test_labels_are_corrected_by_a_file(
    labels: Any, reported: Told, make: Make, http: httpx.Client, tmp_path: Path
) -> None:
    model = make(C=1.0)
    rows, new = tmp_path / "rows.csv", tmp_path / "new.csv"
    rows.write_text("key,a,y\n" + "".join(f"k{i},{i},{labels[i > 4]}\n" for i in range(10)))
    reported("update", model, rows, "--target", "y")
    new.write_text(f"case,found\nk4,{labels[1]}\nk9,{labels[0]}\n")
    assert reported("update", model, "--relabel", new)["version"] == 2
    listed = {one["key"]: one["y"] for one in http.get(f"/models/{model}/examples").json()["examples"]}
    assert [listed[f"k{i}"] for i in (3, 4, 8, 9)] == [labels[0], labels[1], labels[1], labels[0]]


@pytest.mark.parametrize(
    ("text", "row", "reason"),
    [
        ("key,y,more\n", None, "must name two columns"),
        ("key,y\nk1\n", 0, "must be a key and a label"),
        ("key,y\nk1,1\nk2,one\n", 1, "'one' is no number"),
        ("key,y\nk1,1\nk1,0\n", 1, "'k1' is there twice"),
    ],
)
def test_a_bad_file_of_labels_is_refused(text: str, row: int | None, reason: str, tmp_path: Path) -> None:
    (tmp_path / "new.csv").write_text(text)
    with pytest.raises(InvalidInput, match=reason) as refused:
        files.corrections(tmp_path / "new.csv", is_text=False)
    assert refused.value.row == row


def test_paths_are_waited_for_drawn_and_applied(reported: Told, make: Make, tmp_path: Path) -> None:
    model = make(C=1.0, kernel={"name": "rbf", "gamma": 0.5})
    X, y = blobs(np.random.default_rng(1), 60)
    reported("update", model, written(tmp_path, "npz", X[:40], y=y[:40]))
    validation = written(tmp_path, "json", X[40:], y=y[40:])
    job = reported(
        "path", model, "--from", 0.1, "--to", 10, "--validation", validation, "--plot", tmp_path / "p.svg", "--apply"
    )
    assert job["state"] == "done"
    assert reported("models", "show", model)["C"] == job["result"]["validation"]["best"]["value"]
    assert "<svg" in (tmp_path / "p.svg").read_text()
    found = reported("outliers", model, "--hold-out", 0.25)
    assert found["state"] == "done"
    assert "suspected" in found["result"]


def test_a_key_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    secret, entry = new_key("me", "admin")
    with ServiceProcess(tmp_path, api_keys=entry) as service:
        assert main(["models", "list", "--url", service.url]) == 1
        assert "A valid API key is needed" in capsys.readouterr().err
        assert main(["models", "list", "--url", service.url, "--key", secret]) == 0
        monkeypatch.setenv("LIVESVM_KEY", secret)
        monkeypatch.setenv("LIVESVM_URL", service.url)
        assert main(["models", "list", "--json"]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1]) == []


def test_an_answer_that_does_not_come_is_no_service_that_cannot_be_reached(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), connection.connected("http://127.0.0.1:1", ""):
        raise httpx.ReadTimeout("timed out")
    assert "has not answered within 600 s" in capsys.readouterr().err


def test_models_of_every_task_and_kernel_are_created(reported: Told, capsys: pytest.CaptureFixture[str]) -> None:
    for task in TASKS:
        spec = {"pu": '{"prior": 0.3}', "oneclass": '{"nu": 0.2}'}.get(task, "{}")
        assert reported("models", "create", "cli-task", "--task", task, "--spec", spec)["task"] == task
        reported("models", "delete", "cli-task", "--yes")
    for kernel in get_args(KernelSpec.model_fields["name"].annotation):
        if kernel != "polynomial":  # another name of poly
            made = reported("models", "create", "cli-kernel", "--kernel", kernel)
            assert made["kernel"]["name"] == kernel
            reported("models", "delete", "cli-kernel", "--yes")
    assert main(["models", "create", "m", "--task", "l2svc", "--csv", "x.csv", "--target", "y"]) == 2
    assert "is of the other tasks" in capsys.readouterr().err


def test_labels_are_named_when_a_model_is_made(
    reported: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reported("models", "create", "cli-labels", "--label", "ham", "--label", "spam")["labels"] == ["ham", "spam"]
    (tmp_path / "mail.csv").write_text("x,y\n1,ham\n2,Spam \n")
    assert main(["update", "cli-labels", str(tmp_path / "mail.csv")]) == 1
    assert "row 1: 'Spam ' is not one of 'ham', 'spam'; did you mean 'spam'?" in capsys.readouterr().err
    assert reported("models", "create", "cli-numbers", "--label", -1, "--label", 2)["labels"] == [-1, 2]
    for model in ("cli-labels", "cli-numbers"):
        reported("models", "delete", model, "--yes")


def test_tables_for_programs_are_as_wide_as_what_they_hold(
    service: ServiceProcess, http: httpx.Client, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = {f"class-{number}": 1.0 for number in range(100)}
    model = make(class_weight=weights)
    assert main(["models", "show", model, "--url", service.url]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert ["id", model] in lines
    assert ["class_weight", json.dumps(weights)] in lines
    assert max(len(name) + len(value) for name, value in lines if name != "class_weight") < 200
    assert main(["models", "list", "--url", service.url]) == 0
    names, *rows = (line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert names == [*COLUMNS]
    assert model in [row[0] for row in rows]


def test_options_that_are_no_json_are_named(service: ServiceProcess, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("{", "[]", "7"):
        assert main(["models", "create", "m", "--spec", text, "--url", service.url]) == 2
        assert "--spec" in capsys.readouterr().err
        assert main(["feed", "create", "f", "y", "--settings", text, "--url", service.url]) == 2
        assert "--settings" in capsys.readouterr().err
    assert main(["feed", "create", "f", "y", "--steps", "1,24h", "--url", service.url]) == 1
    assert "steps: is a number of readings, such as 24, not '24h'" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["fly"], ["key"], ["key", "--scope", "all"], ["serve", "now"], []])
def test_what_cannot_be_understood_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    capsys.readouterr()


def test_a_service_that_is_not_there_is_status_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Client, "__init__", partialmethod(Client.__init__, patience=0.1))
    assert main(["certificate", "m", "--url", "http://127.0.0.1:9"]) == 1
    assert "cannot be reached" in capsys.readouterr().err


def test_a_start_loads_nothing_that_only_other_commands_need() -> None:
    script = (
        "import sys\n"
        "import livesvm.service.process.start as start\n"
        "start.start = lambda settings: print({'typer', 'rich', 'structlog', 'httpx'} & set(sys.modules)) or 0\n"
        "from livesvm.service.cli.main import main\n"
        "sys.exit(main(['serve']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("set()\n", 0), done.stderr


def test_commands_without_a_service_load_no_solver() -> None:
    script = (
        "import sys\n"
        "from livesvm.service.cli.main import main\n"
        "main(['--help'])\n"
        "print({'numba', 'scipy', 'fastapi', 'httpx', 'pydantic'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "set()"


def test_forgetting_for_good_leaves_a_receipt_in_a_file(
    reported: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = blobs(np.random.default_rng(1), 12)
    keys = [f"person-{number}" for number in range(12)]
    reported("models", "create", "cli-erase", "--C", 1)
    reported("update", "cli-erase", written(tmp_path, "csv", X, y=y, keys=keys))
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert main(["erase", "cli-erase", keys[0]]) == 1  # asked, and it is not wanted
    assert reported("models", "show", "cli-erase")["n_examples"] == 12
    (tmp_path / "more.txt").write_text(f"{keys[1]}\n\n17\n")
    receipt = tmp_path / "receipt.json"
    wanted = ["erase", "cli-erase", keys[0], "--keys-from", str(tmp_path / "more.txt"), "--yes"]
    wanted += ["--idempotency-key", "the-officer-1"]
    assert main([*wanted, "--receipt", str(receipt)]) == 0
    said = capsys.readouterr().out
    assert "2 erased; version 2" in said
    assert "window: solved without them" in said
    assert "not found: 17" in said
    assert main(["receipt", "verify", str(receipt), "--example", keys[1]]) == 0
    assert main(["receipt", "verify", str(receipt), "--example", keys[2]]) == 1
    assert main([*wanted, "--receipt", str(tmp_path)]) == 1  # the directory is no file; it is printed then
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["keys"]["in_window"] == 2  # of the first
    assert main(["erase", "cli-erase", "--yes"]) == 2
    monkeypatch.chdir(tmp_path)
    answer = reported("erase", "cli-erase", keys[3], "--yes")
    assert (tmp_path / f"{answer['receipt']['receipt']}.json").is_file()
    tagged = written(tmp_path, "csv", X[:2], y=y[:2], keys=["a", "b"], tags=['"[""left"", ""right""]"', "left"])
    reported("update", "cli-erase", tagged)
    answer = reported("erase-everywhere", "--tag", "left", "--yes", "--receipt", receipt)
    assert [(one["model"], one["in_window"]) for one in answer["erased"]] == [("cli-erase", 2)]
    assert main(["receipt", "verify", str(receipt), "--tag", "left", "--example", "b"]) == 0
    assert main(["receipt", "verify", str(receipt), "--tag", "right"]) == 1
    assert main(["erase", "cli-erase", "--tag", "left", "--yes"]) == 1  # there is nothing left of it
    assert main(["models", "delete", "cli-erase", "--yes"]) == 0


def test_readings_are_forgotten_by_their_times(reported: Told, tmp_path: Path) -> None:
    reported("feed", "create", "cli-erase", "y", "--window", 40, "--settings", '{"time": null}')
    (tmp_path / "y.csv").write_text("y\n" + "\n".join(map(str, range(8))))
    reported("feed", "push", "cli-erase", tmp_path / "y.csv")
    answer = reported("feed", "erase", "cli-erase", 3, "--from", 5, "--yes", "--receipt", tmp_path / "receipt.json")
    assert (answer["removed"], answer["receipt"]["kind"]) == (4, "feed")
    assert main(["feed", "erase", "cli-erase", "--yes"]) == 2
    assert main(["receipt", "verify", str(tmp_path / "receipt.json"), "--example", "3.0"]) == 0
