"""Pictures: what is drawn is what was found, on axes that are given or new."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.collections import LineCollection

from livesvm import (
    IncrementalOneClassSVM,
    IncrementalSVC,
    IncrementalSVR,
    conformal,
    data_values,
    influences,
    plot,
    suspected_labels,
    tune,
)
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.record import Record

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.where(X[:, 0] + 0.4 * RNG.normal(size=60) > 0, 1, -1)
THREE = np.where(X[:, 1] > 0.5, "c", np.where(X[:, 0] > 0, "b", "a"))


@pytest.fixture(autouse=True)
def _figures() -> Iterator[None]:
    with mpl.rc_context({"backend": "agg"}):
        yield
        pyplot.close("all")


def two_classes() -> Any:
    return IncrementalSVC(C=1.0, gamma=0.5).fit(X, Y)


def points(axes: Any, label: str) -> np.ndarray:
    """Return the points (n, 2) of the line with a label."""
    (line,) = [one for one in axes.get_lines() if one.get_label() == label]
    return np.asarray(line.get_xydata())


@pytest.mark.parametrize("y", [Y, THREE])
def test_decisions_of_classes_are_counted_and_free_examples_marked(y: np.ndarray) -> None:
    model = IncrementalSVC(C=1.0, gamma=0.5).fit(X, y)
    axes = plot.decisions(model)
    tops = max(bar.get_y() + bar.get_height() for bar in axes.patches)
    assert tops <= 60
    assert sum(bar.get_height() for bar in axes.patches) == 60
    marked = points(axes, "free")
    assert len(marked) == model.window_is_free.sum()
    if y is Y:
        assert np.allclose(np.abs(marked[:, 0]), 1.0, atol=1e-6)
    legend = {text.get_text() for text in axes.get_legend().get_texts()}
    assert legend == {*map(str, np.unique(y)), "free"}


def test_regression_is_drawn_against_its_targets() -> None:
    model = IncrementalSVR(C=1.0, gamma=0.5, epsilon=0.1).fit(X, X[:, 0])
    found = points(plot.decisions(model), "others")
    np.testing.assert_allclose(found, np.column_stack([X[:, 0], model.predict(X)]))


def test_targets_that_look_like_classes_are_targets() -> None:
    model = IncrementalSVR(C=1.0, gamma=0.5, epsilon=0.1).fit(X, Y)
    assert plot.decisions(model).get_xlabel() == "target"


def test_of_one_class_decisions_are_drawn() -> None:
    model = IncrementalOneClassSVM(nu=0.2, gamma=0.5).fit(X)
    axes = plot.decisions(model)
    assert sum(bar.get_height() for bar in axes.patches) == 60
    marked = points(axes, "free")[:, 0]
    np.testing.assert_allclose(marked, 0.0, atol=1e-6)
    assert axes.get_xlim()[1] > model.decision_function(X).max() > 0.0


def test_of_several_classes_the_margin_is_that_of_the_worst_pair() -> None:
    model = IncrementalSVC(C=1.0, gamma=0.5, decision_function_shape="ovo").fit(X, THREE)
    edges = {bar.get_x() for bar in plot.decisions(model).patches}
    pairs = dict(zip(model.pairs_, model.decision_function(X).T, strict=True))
    of_own = [
        min(f[i] if label == first else -f[i] for (first, second), f in pairs.items() if label in (first, second))
        for i, label in enumerate(THREE)
    ]
    assert min(edges) == pytest.approx(min(of_own))
    assert sum(np.array(of_own) > 0) <= np.count_nonzero(model.predict(X) == THREE)


def test_an_update_shows_who_stayed_came_and_left() -> None:
    model = two_classes()
    before = copy.deepcopy(model)
    model.update(add=(X[:5] + 0.1, Y[:5]), remove=model.keys_[:10])
    axes = plot.update(before, model)
    for label, n in (("50 stayed", 50), ("10 left", 10), ("5 came", 5)):
        assert len(points(axes, label)) == n
    np.testing.assert_allclose(points(axes, "5 came")[:, 1], model.decision_function(X[:5] + 0.1))
    before = copy.deepcopy(model)
    model.update(relabel={model.keys_[0]: -model.window_y[0]})
    assert len(points(plot.update(before, model), "1 relabelled")) == 1


def test_an_update_of_several_classes_shows_margins() -> None:
    before = IncrementalSVC(C=1.0, gamma=0.5).fit(X[:50], THREE[:50])
    model = copy.deepcopy(before)
    model.update(add=(X[50:], [*THREE[50:59].tolist(), "d"]))
    axes = plot.update(before, model)
    stayed, came = points(axes, "50 stayed"), points(axes, "10 came")
    assert np.isnan(came[-1, 0])  # its class was not known before
    assert not np.isnan(came[:-1]).any()
    assert not np.isnan(stayed).any()
    assert axes.get_xlabel() == "margin of the own class before"


def test_a_record_is_drawn_by_parts_next_to_the_naive_one() -> None:
    model = IncrementalSVC(gamma=0.5).fit([[0.0], [1.0], [2.0]], ["a", "a", "b"])
    for i in range(12):
        model.update(add=([[0.1 * i]], ["b" if i in (5, 11) else "a"]))
    assert model.record is not None
    axes = plot.record(model.record)
    drawn = [part.get_data() for part in axes.patches]
    assert [one.edges.tolist() for one in drawn] == [[0, 10, 12]] * 2
    np.testing.assert_allclose(drawn[1].values, [0.9, 0.5])
    assert axes.get_ylabel() == "share of right labels"
    with pytest.raises(InvalidInput, match="no record yet"):
        plot.record(two_classes().record)


def test_a_long_record_is_drawn_by_few_parts_with_all_examples() -> None:
    record = Record((1.0, 1.0))
    record.window = [0.0]
    losses = RNG.random(1500)
    for loss in losses.tolist():
        record = record.judged([0.0], [loss], [loss])
    values, edges = plot.record(record).patches[0].get_data()[:2]
    assert len(values) <= 32
    assert edges[-1] == 1500
    assert np.average(values, weights=np.diff(edges)) == pytest.approx(losses.mean())


def test_losses_are_means_of_the_newest_and_of_all() -> None:
    wrong = RNG.random(300) < 0.3
    axes = plot.losses(wrong, window=50, drift=[200], label="wrong")
    assert points(axes, "newest 50")[-1, 1] == pytest.approx(wrong[-50:].mean())
    assert points(axes, "all so far")[-1, 1] == pytest.approx(wrong.mean())
    assert len(points(axes, "drift")) == 2


def test_a_path_shows_its_error_and_its_best_interval() -> None:
    path = two_classes().regularization_path(0.1, 10.0)
    curve = path.validation_error(X, Y)
    given = pyplot.figure().subplots()
    axes = plot.path(path, X, Y, axes=given)
    assert axes is given
    drawn = np.asarray(axes.get_lines()[0].get_xydata())
    assert drawn[:, 1].min() == pytest.approx(curve.best().error)
    shaded: Any = axes.patches[-1]
    assert shaded.get_x() == pytest.approx(curve.best().low)
    (right,) = [one for one in axes.figure.axes if one is not axes]
    assert right.get_ylabel() == "support vectors"


def test_a_tuning_marks_the_best() -> None:
    found = tune(two_classes(), gammas=[0.1, 1.0])
    axes = plot.tuning(found)
    ((x, y),) = axes.get_lines()[0].get_xydata().tolist()
    assert (x, y) == (found.parameters["C"], found.parameters["gamma"])


def test_a_tuning_of_a_kernel_without_gamma_is_a_curve() -> None:
    found = tune(IncrementalSVC(kernel="linear").fit(X, Y))
    assert found.errors.shape == (1, found.C.size)
    assert plot.tuning(found).get_xlabel() == "C"


def test_words_are_labels_and_labels_that_a_model_does_not_know_are_outside() -> None:
    words = np.where(Y > 0, "groß", "klein")
    model = IncrementalSVC(C=1.0, gamma=0.5).fit(X, words)
    axes = plot.calibration(["groß"] * 5 + ["klein"] * 5, np.repeat([0.2, 0.9], 5), bins=2)
    np.testing.assert_allclose(np.asarray(axes.get_lines()[-1].get_xydata()), [[0.2, 0.0], [0.9, 1.0]])
    inside = plot.coverage(conformal(model), X[:2], ["never", "seen"]).get_lines()[-1].get_ydata()
    assert not np.any(inside)


def test_gaps_of_a_feed_and_forecasts_to_come_are_not_joined() -> None:
    hours = [f"2026-01-01T{hour:02d}:00:00Z" for hour in range(8)]
    one = {"value": 1.0, "low": 0.0, "high": 2.0}
    rows = [
        {"time": time, "value": None if i == 3 else float(i), "forecasts": [] if i == 3 else [one]}
        for i, time in enumerate(hours[:6])
    ]
    axes = plot.feed(rows, [{"time": time, **one} for time in hours[6:]])
    for label in ("readings", "forecast"):
        assert np.flatnonzero(np.isnan(points(axes, label)[:, 1])).tolist() == [3]
    (to_come,) = [line for line in axes.get_lines() if line.get_label() == "to come"]
    assert to_come.get_linestyle() == "None"
    bands = [found for found in axes.collections if isinstance(found, LineCollection)]
    assert [len(band.get_segments()) for band in bands] == [2]
    assert len(axes.get_xaxis().get_major_formatter().format_ticks([20454.0, 20454.25])[0]) < 8


def test_probabilities_and_coverage_are_drawn_against_what_was_promised() -> None:
    model = two_classes()
    assert plot.calibration(Y, 1.0 / (1.0 + np.exp(-model.decision_function(X))), bins=5).get_lines()
    shares = plot.coverage(conformal(model), X, Y).get_lines()[-1].get_ydata()
    assert np.all(np.diff(shares) >= 0)
    model = IncrementalSVR(C=1.0, gamma=0.5, epsilon=0.1).fit(X[:40], X[:40, 0])
    shares = plot.coverage(conformal(model), X[40:], X[40:, 0]).get_lines()[-1].get_ydata()
    assert shares[-1] >= 0.8


def test_suspected_labels_and_influences_are_bars_in_order() -> None:
    model = two_classes()
    found = suspected_labels(model)
    axes = plot.suspected_labels(found, most=5)
    assert [bar.get_width() for bar in axes.patches] == found.margin[:5].tolist()
    assert [text.get_text().split(":")[0] for text in axes.get_yticklabels()] == [str(key) for key in found.keys[:5]]
    one = influences(model, X[:2])
    widths = [bar.get_width() for bar in plot.influences(one, row=1, most=7).patches]
    assert len(widths) == 7
    assert widths[0] == pytest.approx(max(one.decisions[1] - one.without[:, 1], key=abs))
    with pytest.raises(InvalidInput, match="there are 2 rows"):
        plot.influences(one, row=2)
    assert plot.influences(data_values(model, X, Y)).get_xlabel() == "what the loss grows by without it"
    with pytest.raises(InvalidInput, match="several classes"):
        plot.influences(influences(IncrementalSVC(C=1.0, gamma=0.5).fit(X, THREE), X[:2]))


def test_reports_are_tables_in_notebooks() -> None:
    model = two_classes()
    report = model.update(add=(X[:8], Y[:8]), remove=[0])
    suspects = suspected_labels(model)
    shown = report._repr_html_()
    assert "<caption>UpdateReport</caption>" in shown
    assert "<td>added</td><td>60, 61, 62, 63, 64, 65, ... (8)</td>" in shown
    assert f"<td>relative_gap</td><td>{report.relative_gap:.4g}</td>" in shown
    assert suspects._repr_html_().count("<tr>") == 11
    path = model.regularization_path(0.1, 10.0)
    for one in (model.certificate(), path.best(X, Y), influences(model, X[:2]), tune(model, gammas=[0.1, 1.0])):
        assert f"<caption>{type(one).__name__}</caption>" in one._repr_html_()
    assert "<caption>Path over C</caption>" in path._repr_html_()
    assert "<caption>Conformal</caption>" in conformal(model)._repr_html_()
    labelled = IncrementalSVC(C=1.0, gamma=0.5).fit(X, np.where(Y > 0, "<b>", "&"))
    assert "&lt;b&gt;" in suspected_labels(labelled)._repr_html_()
    assert "IncrementalSVC" in model._repr_html_()


def test_a_feed_is_readings_forecasts_and_bands() -> None:
    def row(hour: int, **more: Any) -> dict[str, Any]:
        return {"time": f"2024-01-01T{hour:02d}:00:00+00:00", "value": float(hour), **more}

    rows = [row(hour, forecasts=[{"value": hour + 0.5, "low": hour - 1.0, "high": hour + 1.0}]) for hour in range(5)]
    rows.append({**row(5, forecasts=[]), "value": None})
    axes = plot.feed(rows, [row(6, low=None, high=None)])
    np.testing.assert_equal(points(axes, "readings")[:, 1], [0.0, 1.0, 2.0, 3.0, 4.0, np.nan])
    np.testing.assert_equal(points(axes, "forecast")[:, 1], [0.5, 1.5, 2.5, 3.5, 4.5, np.nan])
    assert len(points(axes, "to come")) == len(axes.collections) == 1
