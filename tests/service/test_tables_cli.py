"""Tables as they are, from the command line: a model from a file, what it learns later, and what it says of others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from livesvm.service.cli import tables
from livesvm.service.cli.main import main
from livesvm.service.client import Client
from tests.service.conftest import Told
from tests.service.process import ServiceProcess

N = 60
HEAD = "Größe;plan;seit;Umsatz;geht"


def customers(n: int = N, seed: int = 1) -> list[dict[str, Any]]:
    """Return rows as a service takes them, with whether each customer leaves."""
    rng = np.random.default_rng(seed)
    rows = [
        {
            "Größe": None if at % 7 == 0 else float(rng.integers(20, 60)),
            "plan": str(rng.choice(["unknown", "free", "none"])),
            "seit": f"2024-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d}T10:30:00",
            "Umsatz": float(rng.integers(100, 900_000)) / 4,
        }
        for at in range(n)
    ]
    return [row | {"geht": "ja" if float(row["Umsatz"] or 0) > 1e5 else "nein"} for row in rows]


def german(rows: list[dict[str, Any]]) -> str:
    """Return rows as a German spreadsheet writes them."""
    lines = ["Kunden der Stadtwerke", "", HEAD]
    for row in rows:
        size = "k. A." if row["Größe"] is None else f"{row['Größe']:.0f}"
        year, month, day = row["seit"][:10].split("-")
        amount = f"{row['Umsatz']:,.2f}".translate(str.maketrans(",.", ".,"))
        lines.append(f"{size};{row['plan']};{day}.{month}.{year} 10:30;{amount};{row['geht']}")
    return "\n".join([*lines, ""])


@pytest.fixture(autouse=True)
def here(tmp_path: Path, service: ServiceProcess, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the table, and name the service; return where."""
    monkeypatch.setenv("LIVESVM_URL", service.url)
    (tmp_path / "kunden.csv").write_text(german(customers()), encoding="latin-1")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told_apart(rows: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return features and targets."""
    return [{name: one for name, one in row.items() if name != "geht"} for row in rows], [row["geht"] for row in rows]


def test_a_file_becomes_a_model_as_its_rows_do(reported: Told, service: ServiceProcess, here: Path) -> None:
    marks = ("--missing", "k. A.")
    fixed = ("--C", 10, "--gamma", 0.1)  # else each model chooses at a moment of its own
    made = reported("models", "create", "kunden", "--csv", "kunden.csv", "--target", "geht", *marks, *fixed)
    assert (made["sent"], made["task"], made["n_examples"]) == (N, "svc", N)
    assert made["understood"]["decimal mark"] == "comma"
    more = customers(9, 2)
    (here / "mehr.csv").write_text(german(more), encoding="utf-16")
    reported("update", "kunden", "mehr.csv", *marks)
    rest = customers(5, 3)
    text = german(rest).replace(";geht", "").replace(";ja\n", "\n").replace(";nein\n", "\n")
    (here / "neu.csv").write_text(text)
    found = reported("predict", "kunden", "neu.csv", *marks)
    with Client(service.url) as client:
        client.create_model("rows", columns="auto", C=10.0, kernel={"name": "rbf", "gamma": 0.1})
        client.update("rows", *told_apart(customers()))
        client.update("rows", *told_apart(more))
        expected = client.predict("rows", told_apart(rest)[0])
        assert [one["kind"] for one in client.model("kunden")["columns"]] == ["number", "category", "time", "number"]
        client.delete_model("rows")
    assert found["decision"] == pytest.approx(expected["decision"], abs=1e-9)
    assert found["prediction"] == expected["prediction"]
    shown = reported("update", "kunden", "mehr.csv", *marks, "--dry-run")["rows"]
    assert shown[0] == {name: more[0][name] for name in more[0] if name != "geht"} | {"[y]": more[0]["geht"]}
    assert "[y]" not in reported("predict", "kunden", "mehr.csv", *marks, "--dry-run")["rows"][0]
    assert reported("explain", "kunden", "neu.csv", *marks, "--most", 1)["rows"]
    changed = reported("what-if", "kunden", "mehr.csv", "--rows", "neu.csv", *marks)
    assert changed["rows"]["before"]["decision"] == pytest.approx(found["decision"])
    reported("models", "delete", "kunden", "--yes")


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("a,b,left\n1,2,yes\n3,4,no\n", ["--target", "gone"], "no column 'gone'; it has a, b, left"),
        ("a,b,left\n1,2,yes\n3,4,no\n", [], "name the column of targets by --target; the columns are a, b, left"),
        ("a,b,left\n1,2,\n3,4,\n", ["--target", "left"], "has no row with a target"),
        ("left\nyes\nno\n", ["--target", "left"], "has no column but left"),
        ("a;left\n1,234;yes\n2,345;no\n", ["--target", "left"], "--decimal"),
        ("a;left\n01/02/2024;yes\n03/04/2024;no\n", ["--target", "left"], "--time-format"),
        (
            "a,b,left\n1,2,yes\n3,4\n5,6,no\n" + "7,8,yes\n" * 9,
            ["--target", "left"],
            "row 2: has 2 columns, the first line has 3",
        ),
    ],
)
def test_a_table_that_cannot_be_learnt_makes_no_model(
    text: str, options: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "x.csv").write_text(text)
    assert main(["models", "create", "none", "--csv", "x.csv", *options]) == 1
    assert said in capsys.readouterr().err
    assert main(["models", "show", "none"]) == 1


def test_what_is_refused_is_named_by_its_row_and_the_model_is_gone(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CALL", 4)
    lines = [f"{at},{'x' * 2000 if at == 7 else 'free'},{'yes' if at % 2 else 'no'}" for at in range(12)]
    (here / "x.csv").write_text("\n".join(["a,plan,left", *lines]))
    assert main(["models", "create", "none", "--csv", "x.csv", "--target", "left"]) == 1
    assert "x.csv, row 8 below the header: plan: has more than 1000 characters" in capsys.readouterr().err
    assert main(["models", "show", "none"]) == 1


def test_the_columns_of_a_model_are_those_of_its_files(
    reported: Told, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"{at},{at % 3},{'yes' if at % 2 else 'no'}" for at in range(20)]
    (here / "x.csv").write_text("\n".join(["a,b,left", *rows]))
    reported("models", "create", "own", "--csv", "x.csv", "--target", "left")
    for head, said in (("a,c,left", "no column 'b'"), ("a,b,c,left", "c is no column of the model")):
        (here / "y.csv").write_text(f"{head}\n{'1,2,yes' if head.count(',') == 2 else '1,2,3,yes'}\n")
        assert main(["update", "own", "y.csv"]) == 1
        assert said in capsys.readouterr().err
    (here / "y.csv").write_text("id,a,b,left\nc7,1,2,yes\n")
    assert reported("update", "own", "y.csv", "--target", "left", "--key-column", "id")["added"] == ["c7"]
    reported("models", "delete", "own", "--yes")


def test_targets_say_what_is_learnt_and_rows_without_one_are_left_out(
    reported: Told, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{at},{'' if at == 3 else at / 3}" for at in range(50)]
    (here / "x.csv").write_text("\n".join(["a,price", *lines]))
    made = reported("models", "create", "amounts", "--csv", "x.csv", "--target", "price", "--max-examples", 30)
    assert (made["task"], made["sent"], made["window"]["max_examples"]) == ("svr", 30, 30)
    assert made["understood"]["rows without a target"] == 1
    (here / "more.csv").write_text("\n".join(["a,price", "1,", "2,5.5", "3,6.5"]))
    capsys.readouterr()
    assert main(["update", "amounts", "more.csv", "--json"]) == 0
    said = capsys.readouterr()
    assert len(json.loads(said.out)["added"]) == 2
    assert "more.csv: 1 rows without a target are left out" in said.err
    assert len(reported("predict", "amounts", "more.csv")["prediction"]) == 3
    reported("models", "delete", "amounts", "--yes")
    (here / "x.csv").write_text("\n".join(["a,b", *(f"{at},{at % 7}" for at in range(50))]))
    made = reported("models", "create", "one", "--csv", "x.csv", "--task", "oneclass", "--spec", '{"nu": 0.2}')
    assert (made["task"], made["sent"]) == ("oneclass", 50)
    reported("models", "delete", "one", "--yes")


def test_weights_and_times_of_the_first_table_are_features_and_all_rows_decide(
    reported: Told, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CALL", 60)
    rows = [f"2024-01-{1 + at % 28:02d} 10:30,{at % 11},{'yes' if at % 11 > 5 else 'no'}" for at in range(100)]
    (here / "cars.csv").write_text("\n".join(["time,weight,sold", *rows]))
    made = reported("models", "create", "cars", "--csv", "cars.csv", "--target", "sold")
    assert {one["name"]: one["kind"] for one in made["columns"]} == {"time": "time", "weight": "number"}
    assert (made["tuning"]["chosen"]["reason"], made["tuning"]["chosen"]["n_examples"]) == ("asked", 100)
    assert reported("predict", "cars", "cars.csv")["prediction"][:11] == ["no"] * 6 + ["yes"] * 5
    assert reported("update", "cars", "cars.csv")["n_examples"] == 200
    reported("models", "delete", "cars", "--yes")


def test_a_table_sorted_by_its_targets_is_learnt_evenly(
    reported: Told, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST", 40)
    lines = [f"{at},{'word' if at > 70 else at},{'yes' if at < 80 else 'no'}" for at in range(100)]
    (here / "x.csv").write_text("\n".join(["a,plan,left", *lines]))
    made = reported("models", "create", "even", "--csv", "x.csv", "--target", "left")
    counts = {one["label"]: one["n_examples"] for one in made["classes"]}
    assert (made["sent"], counts) == (40, {"yes": 32, "no": 8})
    assert [one["kind"] for one in made["columns"]] == ["number", "category"]
    reported("models", "delete", "even", "--yes")


def test_numbers_of_any_dialect_are_those_of_a_matrix(reported: Told, service: ServiceProcess, here: Path) -> None:
    X = [[at / 4, (at * 7 % 5) / 8] for at in range(20)]
    y = [1 if row[0] > 2 else -1 for row in X]
    lines = [f"{row[0]:.2f};{row[1]:.3f};{label}".replace(".", ",") for row, label in zip(X, y, strict=True)]
    (here / "x.csv").write_text("\n".join(["# written by a logger", "a;b;label", *lines]))
    reported("models", "create", "matrix", "--C", 2, "--gamma", 0.5)
    reported("update", "matrix", "x.csv", "--target", "label")
    with Client(service.url) as client:
        client.create_model("lists", C=2.0, kernel={"name": "rbf", "gamma": 0.5})
        client.update("lists", X, y)
        expected = client.predict("lists", X)["decision"]
        client.delete_model("lists")
    assert reported("predict", "matrix", "x.csv", "--target", "label")["decision"] == expected
    reported("models", "delete", "matrix", "--yes")


def test_paths_choose_by_a_table(reported: Told, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reported("models", "create", "kunden", "--csv", "kunden.csv", "--target", "geht", "--C", 2)
    (here / "neue.csv").write_text(german(customers(30, 7)), encoding="latin-1")
    for command in ("path", "outliers"):
        result = reported(command, "kunden", "--validation", "neue.csv")["result"]
        assert result["validation"]["best"]["error"] < 0.3
    (here / "neue.csv").write_text(german(customers(9)).replace("free", "2024").replace("10:30", "spaet", 3))
    assert main(["path", "kunden", "--validation", "neue.csv"]) == 1
    said = capsys.readouterr().err
    assert "validation.rows" in said
    assert "seit" in said
    reported("models", "delete", "kunden", "--yes")
