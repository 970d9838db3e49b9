"""Tables: rows with names, words, gaps and times, as models take them."""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from livesvm.solvers import (
    IncrementalOneClassSVM,
    IncrementalPUClassifier,
    IncrementalSVC,
    IncrementalSVR,
    before_learning,
    conformal,
    data_values,
    drift,
    influences,
    k_fold,
    leave_one_out,
    load_model,
    save_model,
    suspected_labels,
    update_singly,
)
from livesvm.solvers.errors import InvalidInput, InvalidType
from livesvm.solvers.tables import encoding
from livesvm.solvers.tables.cells import MARKS, code_of
from livesvm.solvers.tables.columns import TableColumn, found_in, given

RNG = np.random.default_rng(5)
N = 120


def customers(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    found = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n).round(1),
            "plan": rng.choice(["gold", "free", "silver"], n),
            "joined": pd.date_range("2024-01-01", periods=n, freq="31h"),
            "vip": rng.random(n) < 0.3,
        }
    )
    found.loc[::7, "age"] = np.nan
    found.loc[::11, "plan"] = None
    return found


ROWS = customers()
Y = np.where((ROWS["plan"] == "gold") ^ (ROWS["age"].fillna(40) > 42), "stay", "left")


def records(rows: pd.DataFrame = ROWS) -> list[dict[str, Any]]:
    found = rows.astype(object).where(rows.notna(), None).to_dict("records")
    return [{str(name): cell for name, cell in row.items()} for row in found]


def live() -> IncrementalSVC:
    return IncrementalSVC(C=3.0, columns="auto").fit(ROWS, Y)


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "frame": lambda rows: rows,
    "arrow": lambda rows: pa.Table.from_pandas(rows, preserve_index=False),
    "records": records,
    "absent": lambda rows: [{name: cell for name, cell in row.items() if cell is not None} for row in records(rows)],
    "mapping": lambda rows: {name: list(cells) for name, cells in rows.astype(object).items()},
    "text": lambda rows: [
        {name: "" if cell is None else str(cell) for name, cell in row.items()} for row in records(rows)
    ],
    "other order": lambda rows: rows[list(rows.columns[::-1])],
    "categories": lambda rows: rows.astype({"plan": "category"}),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_table_is_the_same_table(form: str) -> None:
    model, rows = live(), FORMS[form](ROWS)
    np.testing.assert_array_equal(model.decision_function(rows), model.decision_function(ROWS))
    again = IncrementalSVC(C=3.0, columns="auto").fit(rows, Y)
    assert {(one.name, one.kind, one.encoding) for one in again.columns_.each} == {
        ("age", "number", "standard"),
        ("plan", "category", "one-hot"),
        ("joined", "time", "parts"),
        ("vip", "yes-no", "standard"),
    }
    np.testing.assert_allclose(again.decision_function(ROWS), model.decision_function(ROWS), atol=1e-7)


def test_the_window_keeps_the_rows_as_they_came() -> None:
    model = live()
    for kept, came in zip(model.window_X, records(), strict=True):
        assert [kept[name] for name in ("age", "plan", "vip")] == [came[name] for name in ("age", "plan", "vip")]
        assert kept["joined"] == came["joined"].tz_localize("UTC").isoformat().replace("+00:00", "Z")
    again = IncrementalSVC(C=3.0, columns=model.columns_.documents()).fit(model.window_X, Y)
    np.testing.assert_allclose(again.decision_function(ROWS), model.decision_function(ROWS), atol=1e-7)


def test_features_are_what_scikit_learn_makes_of_them() -> None:
    columns, codes = found_in(ROWS).read(ROWS)
    X = encoding.fitted(columns, codes, np.ones(N))
    names = [name for name in X.feature_names if "joined" not in name]
    assert names == [
        "age",
        "age is missing",
        *(f"plan={one}" for one in sorted(["free", "gold", "silver"], key=code_of)),
        "vip",
    ]
    found = dict(zip(X.feature_names, X.apply(codes).T, strict=True))
    age = ROWS["age"]
    np.testing.assert_allclose(found["age"], ((age - age.mean()) / age.std(ddof=0)).fillna(0.0))
    np.testing.assert_array_equal(found["age is missing"], age.isna())
    for word in ("free", "gold", "silver"):
        np.testing.assert_array_equal(found[f"plan={word}"], ROWS["plan"] == word)
    hours = (ROWS["joined"] - pd.Timestamp("1970-01-01")).dt.total_seconds() / 3600
    np.testing.assert_allclose(found["joined hour sin"], np.sin(2 * np.pi * hours / 24), atol=1e-9)
    assert [name for name in found if "cos" in name] == ["joined hour cos", "joined weekday cos"]


def test_normal_scores_have_the_order_and_go_on_beyond_what_was_seen() -> None:
    x = np.exp(RNG.normal(size=500))[:, None]
    columns = given([{"name": "x", "encoding": "normal-scores"}])
    scores = encoding.fitted(columns, x, np.ones(500))
    found = scores.apply(np.sort(x, axis=0))[:, 0]
    assert (np.diff(found) >= 0).all()
    assert [found.mean(), found.std()] == pytest.approx([0.0, 1.0])
    beyond = scores.apply(np.array([[x.max()], [2 * x.max()], [3 * x.max()]]))[:, 0]
    assert beyond[2] - beyond[1] == pytest.approx(beyond[1] - beyond[0])
    assert beyond[1] > beyond[0] + 0.1


@pytest.mark.parametrize(
    ("rows", "name", "row"),
    [
        ([{"age": 31, "plan": "gold"}, {"age": "old"}], "age", 1),
        ([{"age": 31}, {"age": 1e200}], "age", 1),
        ([{"vip": "maybe"}], "vip", 0),
        ([{"joined": "03/04/2024"}], "joined", 0),
        ([{"age": 1}, {"colour": "red"}], "colour", 1),
        ([{"plan": "x" * 2000}], "plan", 0),
        ([{"plan": "gold"}, {"plan": ["gold"]}], "plan", 1),
        ([{"plan": b"gold"}], "plan", 0),
        ([{"plan": "\ud800"}], "plan", 0),
        ([{"age": 10**400}], "age", 0),
        ([{"age": Decimal("Infinity")}], "age", 0),
        (ROWS[:3].assign(age=[31, 40, np.inf]), "age", 2),
        (ROWS[:3].assign(age=[True, False, True]), "age", 0),
        (ROWS[:3].assign(joined=["2024-01-02", "02/01/2024", None]), "joined", 1),
        (ROWS[:3].assign(joined=[1, 2, 3]), "joined", 0),
        (pd.concat([ROWS[:3], ROWS[["age"]][:3]], axis=1), "age", None),
        (pl.from_pandas(ROWS[:3]).with_columns(pl.lit("old").alias("age")), "age", 0),
        (pa.Table.from_pandas(ROWS[:3]).drop_columns("plan"), "plan", None),
        (ROWS.drop(columns="age"), "age", None),
        (ROWS.assign(more=1), "more", None),
    ],
)
def test_a_wrong_cell_is_named_and_changes_nothing(rows: Any, name: str, row: int | None) -> None:
    model = live()
    before = pickle.dumps(model.to_arrays())
    for ask in (model.predict, lambda rows: model.update((rows, Y[: len(rows)])), model.check_scale):
        with pytest.raises(InvalidInput) as caught:
            ask(rows)
        assert (caught.value.name, caught.value.row) == (name, row)
        assert repr(name) in str(caught.value)
    assert pickle.dumps(model.to_arrays()) == before


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        ([{"kind": "number"}], 0),
        ([{"name": "a"}, {"name": "a"}], 1),
        ([{"name": "a", "kind": "colour"}], 0),
        ([{"name": "a", "kind": "time", "encoding": "one-hot"}], 0),
        ([{"name": "a", "relevance": 0}], 0),
        ([{"name": "a", "width": 1}], 0),
        ([], None),
        ("some", None),
    ],
)
def test_columns_that_cannot_be_are_named(columns: Any, row: int | None) -> None:
    with pytest.raises(InvalidInput) as caught:
        IncrementalSVC(columns=columns).fit([[1.0], [2.0]], [0, 1])
    assert (caught.value.field, caught.value.row) == ("columns", row)


def test_kinds_are_found_in_the_cells() -> None:
    table: dict[str, Any] = {
        "number as text": ["1.5", "?", "-2e3", "NA"],
        "yes or no": ["yes", "No", "", "TRUE"],
        "words and true": ["red", True, None, "blue"],
        "numbers and words": [1, "one", 2.0, None],
        "decimal": [Decimal("1.5"), None, 2, 3.5],
        "date": [dt.date(2024, 1, 1), None, dt.date(2024, 1, 3), dt.date(2024, 2, 1)],
        "two formats": ["2024-01-01", "02/01/2024", "2024-01-03", "2024-01-04"],
        "time as text": ["2024-01-01T10:00:00+01:00", "2024-01-02", "null", "2024-01-02 11:30"],
        "nothing": [None, None, float("nan"), ""],
        "duration": [dt.timedelta(hours=2), None, pd.Timedelta("1s"), np.timedelta64(3, "m").item()],
        "signalling": [Decimal("sNaN"), 1, 2, 3],
        "categories": pd.Series([1, 2, None, 1], dtype="category"),
        "an enum": pl.Series(["1", "2", None, "1"], dtype=pl.Enum(["1", "2", "3"])),
        "a dictionary": pa.array(["1", "2", None, "1"]).dictionary_encode(),
    }
    kinds = {one.name: one.kind for one in found_in(table).each}
    assert list(kinds.values()) == [
        *("number", "yes-no", "category", "category", "number", "time", "category", "time", "number"),
        *("number", "number", "category", "category", "category"),
    ]
    columns, codes = found_in(table).read(table)
    assert columns.rows(codes)[1]["words and true"] == "true"
    assert columns.rows(codes)[0]["time as text"] == "2024-01-01T09:00:00Z"
    assert [row["duration"] for row in columns.rows(codes)] == [7200.0, None, 1.0, 180.0]
    assert columns.rows(codes)[0]["categories"] == "1"
    assert [row["numbers and words"] for row in columns.rows(codes)] == ["1", "one", "2", None]
    assert "?" in MARKS


def test_names_of_columns_are_texts_of_any_kind() -> None:
    for name in ("", "Größe 漢字", "x" * 300, "x0"):
        model = IncrementalSVC(C=3.0, columns="auto").fit(ROWS.rename(columns={"age": name}), Y)
        np.testing.assert_allclose(
            model.decision_function(ROWS.rename(columns={"age": name})), live().decision_function(ROWS), atol=1e-7
        )
    for names in ([0, 1, 2, 3], pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1), ("b", 2)])):
        with pytest.raises(InvalidType, match="names of columns are texts"):
            live().predict(ROWS.set_axis(names, axis=1))
    with pytest.raises(InvalidType, match="collect it"):
        live().predict(pl.from_pandas(ROWS).lazy())


def test_rows_without_a_cell_are_rows() -> None:
    model = live()
    empty: list[Any] = [{}, {}]
    assert model.predict(empty).shape == (2,)
    np.testing.assert_array_equal(model.decision_function(empty), model.decision_function([{"plan": None}] * 2))
    model.update((empty, ["stay", "left"]))
    assert model.window_X[-1] == dict.fromkeys(ROWS.columns)
    assert model.predict(ROWS[:0]).size == 0
    before = pickle.dumps(model.to_arrays())
    model.update((ROWS[:0], []))
    assert pickle.dumps(model.to_arrays()) == before


def test_columns_of_which_nothing_can_be_learnt_do_no_harm() -> None:
    rows = ROWS.assign(constant=7.0, empty=None, key=[f"customer {i}" for i in range(N)])
    model = IncrementalSVC(C=3.0, columns="auto").fit(rows, Y)
    assert model.columns_.each[-1] == TableColumn("key", "category", "ignored")
    np.testing.assert_allclose(
        model.decision_function(rows.assign(constant=1.0, key="new")), live().decision_function(ROWS), atol=1e-7
    )
    assert IncrementalSVC(columns="auto").fit([{"a": 1.0}, {"a": 1.0}], [0, 1]).feature_scale_.places.size == 1
    with pytest.raises(InvalidInput, match="no cell that says anything"):
        IncrementalSVC(columns="auto").fit([{"a": None}, {"a": None}], [0, 1])


def test_many_words_are_few_features() -> None:
    words = [f"word {i}" for i in range(100_000)]
    columns, codes = given([{"name": "w", "kind": "category"}]).read({"w": words})
    assert len(columns.words) == np.unique(codes).size == 100_000
    assert encoding.fitted(columns, codes, np.ones(len(codes))).places.size == encoding.MOST_WORDS


def test_new_words_are_like_none_of_the_others_until_the_encoding_is_made_anew() -> None:
    model = live()
    new = [{**row, "plan": "platinum"} for row in records()[:30]]
    other = [{**row, "plan": "copper"} for row in records()[:30]]
    np.testing.assert_array_equal(model.decision_function(new), model.decision_function(other))
    model.update((new, ["stay"] * 30))
    np.testing.assert_array_equal(model.decision_function(new), model.decision_function(other))
    assert model.window_X[-1]["plan"] == "platinum"
    model.rescale()
    assert (model.decision_function(new) > model.decision_function(other)).mean() > 0.9


def test_of_a_word_that_has_left_nothing_is_kept() -> None:
    model = live()
    model.update(([{"plan": "secret word"}], ["stay"]), keys=["one"])
    assert "secret word" in repr(model.to_arrays())
    model.update(remove=["one"])
    assert "secret word" not in repr(model.to_arrays())


def test_an_update_leads_where_training_on_the_same_encoding_does() -> None:
    model = IncrementalSVC(C=3.0, columns="auto").fit(ROWS[:60], Y[:60])
    for start in range(60, N, 12):
        model.update((ROWS[start : start + 12], Y[start : start + 12]), remove=model.keys_[:12])
        assert model.certificate().relative_gap < 1e-9
    model.update(relabel={model.keys_[3]: "left"})
    fresh = IncrementalSVC(C=3.0, columns=model.columns_.documents()).fit(model.window_X, model.window_y)
    model.rescale()
    np.testing.assert_allclose(model.decision_function(ROWS), fresh.decision_function(ROWS), atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        IncrementalSVC(columns="auto", probability=True),
        IncrementalSVR(columns="auto"),
        IncrementalOneClassSVM(nu=0.2, columns="auto"),
        IncrementalPUClassifier(prior=0.4, lam=0.01, columns="auto"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_task_takes_tables_and_comes_back_from_its_arrays(model: Any) -> None:
    y: dict[str, Any] = {
        "IncrementalSVC": Y,
        "IncrementalSVR": ROWS["age"].fillna(0.0),
        "IncrementalOneClassSVM": None,
        "IncrementalPUClassifier": (Y == "stay") * (RNG.random(N) < 0.5),
    }
    target = y[type(model).__name__]
    model.fit(ROWS, target)
    assert model.n_features_in_ == 4
    back = type(model).from_arrays(model.get_params(), pickle.loads(pickle.dumps(model.to_arrays())))
    for again in (back, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(
            again.predictor().decision_function(ROWS), model.predictor().decision_function(ROWS)
        )
        again.update((ROWS[:5], None if target is None else target[:5]), remove=again.keys_[:5])
        assert again.certificate().relative_gap < 1e-8


def test_several_classes_are_learnt_from_tables() -> None:
    three = np.where(ROWS["age"].fillna(40) > 45, "high", np.where(ROWS["age"].fillna(40) > 35, "middle", "low"))
    model = IncrementalSVC(C=3.0, columns="auto").fit(ROWS, three)
    assert model.score(ROWS, three) > 0.8
    assert model.regularization_path(0.5, 2.0).best(ROWS, three).error < 0.2


def corrected(model: Any, rows: Any) -> Any:
    """Return the decisions and the window's order after changes of all kinds."""
    model.update((rows, Y[:9]), remove=model.keys_[:5], keys=[f"new {at}" for at in range(9)])
    model.update(relabel={"new 1": "left"}, reweight={7: 0.5}, decay=0.9)
    model.update((rows[:2], ["stay", "left"]), keys=["new 0", "new 2"], on_repeat="replace")
    return [model.keys_.index("new 0"), *model.decision_function(rows)]


def suspects(model: Any, rows: Any) -> Any:
    found = suspected_labels(model)
    return [*found.keys, *found.margin]


ANALYSES: dict[str, Callable[[Any, Any], Any]] = {
    "updates": corrected,
    "folds": lambda model, rows: k_fold(model, 4).decisions,
    "suspected labels": suspects,
    "robust": lambda model, rows: model.outlier_path("theta").validation_errors(rows, Y[:9])[1],
    "errors along a path": lambda model, rows: model.regularization_path(0.5, 2.0).validation_error(rows, Y[:9]).left,
    "leave-one-out": lambda model, rows: leave_one_out(model).decisions,
    "influences": lambda model, rows: influences(model, rows).decisions,
    "data values": lambda model, rows: data_values(model, rows, Y[:9]).values,
    "conformal sets": lambda model, rows: conformal(model).sets(rows, 0.8),
    "before learning": lambda model, rows: before_learning(model, rows, Y[:9])[0],
    "drift": lambda model, rows: drift(model).rolling,
    "a path over C": lambda model, rows: model.regularization_path(0.5, 2.0).at(1.0).decision_function(rows),
    "an outlier path": lambda model, rows: [drop for _, drop in model.outlier_path("s").order_of_outliers()],
    "probabilities": lambda model, rows: model.predict_proba(rows),
    "singly": lambda model, rows: [report.events for report in update_singly(model, add=(rows, Y[:9]))],
}


@pytest.mark.parametrize("C", [3.0, "auto"])
@pytest.mark.parametrize("name", ANALYSES)
def test_analyses_of_tables_are_those_of_their_features(name: str, C: Any) -> None:
    model = IncrementalSVC(C=C, columns="auto", probability=True).fit(ROWS, Y)
    scale = model.feature_scale_
    X = scale.apply(scale.read(ROWS))
    plain = IncrementalSVC(C=model.C_, gamma=model.gamma_, probability=True).fit(X, Y)
    found, expected = (ANALYSES[name](one, rows[:9]) for one, rows in ((model, ROWS), (plain, X)))
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), atol=1e-6)


def slid(model: Any, rows: Any, y: Any) -> Any:
    model.update((rows, None if y is None else y[:9]), remove=model.keys_[:9])
    return model.predictor().decision_function(rows)


AGES = ROWS["age"].fillna(40.0).to_numpy()
MARKED = ((Y == "stay") & (np.arange(N) % 3 > 0)).astype(int)
THREE = np.where(AGES > 45, "high", np.where(AGES > 35, "middle", "low"))
Analysis = Callable[[Any, Any, Any], Any]
OF_TASKS: dict[str, tuple[Any, Any, dict[str, Analysis]]] = {
    "regression": (
        IncrementalSVR(C=3.0, epsilon=0.5),
        AGES,
        {
            "leave-one-out": lambda model, rows, y: leave_one_out(model).decisions,
            "influences": lambda model, rows, y: influences(model, rows).without,
            "data values": lambda model, rows, y: data_values(model, rows, y[:9]).values,
            "intervals": lambda model, rows, y: conformal(model).intervals(rows, 0.8),
            "drift": lambda model, rows, y: drift(model).rolling,
            "a path over epsilon": lambda model, rows, y: model.epsilon_path(0.1, 2.0).at(1.0).predict(rows),
            "errors along a path": lambda model, rows, y: (
                model.regularization_path(0.5, 2.0).validation_error(rows, y[:9]).left
            ),
            "robust": lambda model, rows, y: model.outlier_path("theta").validation_errors(rows, y[:9])[1],
            "slid": slid,
        },
    ),
    "one class": (
        IncrementalOneClassSVM(nu=0.3),
        None,
        {
            "folds": lambda model, rows, y: k_fold(model, 4).decisions,
            "influences": lambda model, rows, y: influences(model, rows).without,
            "a path over nu": lambda model, rows, y: (
                model.regularization_path(0.1, 0.6).at(0.4).decision_function(rows)
            ),
            "slid": slid,
        },
    ),
    "positive and unlabelled": (
        IncrementalPUClassifier(prior=0.4, lam=0.01),
        MARKED,
        {
            "thresholds": lambda model, rows, y: [*model.threshold(alerts=0.2), *model.threshold(precision=0.5)],
            "flagged": lambda model, rows, y: model.predict(rows, alerts=0.2),
            "influences": lambda model, rows, y: influences(model, rows).without,
            "a path": lambda model, rows, y: model.regularization_path(0.005, 0.02).at(50.0).decision_function(rows),
            "slid": slid,
        },
    ),
    "several classes": (
        IncrementalSVC(C=3.0, probability=True),
        THREE,
        {
            "probabilities": lambda model, rows, y: model.predict_proba(rows),
            "conformal sets": lambda model, rows, y: conformal(model).sets(rows, 0.8),
            "leave-one-out": lambda model, rows, y: leave_one_out(model).decisions,
            "influences": lambda model, rows, y: influences(model, rows).without,
            "suspected labels": lambda model, rows, y: suspects(model, rows),
            "an outlier path": lambda model, rows, y: model.outlier_path("theta").validation_errors(rows, y[:9])[1],
            "slid": slid,
        },
    ),
}


@pytest.mark.parametrize("task", OF_TASKS)
def test_analyses_of_tables_of_every_task_are_those_of_their_features(task: str) -> None:
    estimator, y, analyses = OF_TASKS[task]
    model = clone(estimator).set_params(columns="auto").fit(ROWS, y)
    scale = model.feature_scale_
    X = scale.apply(scale.read(ROWS))
    plain = clone(estimator).set_params(gamma=model.gamma_).fit(X, y)
    for name, ask in analyses.items():
        found, expected = (np.asarray(ask(one, rows[:9], y), float) for one, rows in ((model, ROWS), (plain, X)))
        np.testing.assert_allclose(found, expected, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("task", OF_TASKS)
def test_columns_keep_their_kinds_when_a_model_is_solved_again(task: str) -> None:
    estimator, y, _ = OF_TASKS[task]
    rows = ROWS.assign(zone=["north", *(str(at % 5) for at in range(1, N))])
    model = clone(estimator).set_params(columns="auto").fit(rows, y)
    model.update(remove=model.keys_[:1])
    for changed in (model.rescale, lambda: model.change(gamma=0.3)):
        changed()
        assert {one.name: one.kind for one in model.columns_.each}["zone"] == "category"
        assert model.certificate().relative_gap < 1e-8


def test_models_of_tables_are_kept_in_files(tmp_path: Path) -> None:
    for model in (live(), IncrementalSVC(C="auto", columns="auto").fit(ROWS, Y)):
        save_model(model, tmp_path / "model")
        again = load_model(tmp_path / "model")
        np.testing.assert_array_equal(again.decision_function(ROWS), model.decision_function(ROWS))
        assert again.C_ == model.C_
    with pytest.raises(InvalidInput) as caught:
        model.to_sklearn()
    assert caught.value.field == "columns"
