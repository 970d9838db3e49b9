"""The shipped record and the examples made of it."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np

from livesvm.service.demo.data.fisher_river import examples, load, scale_by


def test_record_has_every_day_and_only_numbers() -> None:
    series = load()
    first = date(1988, 1, 1)
    assert series.dates == tuple((first + timedelta(days=i)).isoformat() for i in range(1461))
    assert series.columns == ("flow_m3s", "precip_mm", "temp_c")
    assert np.isfinite(series.values).all()
    np.testing.assert_array_equal(series.values.min(axis=0), [0.034, 0.0, -35.0])
    np.testing.assert_array_equal(series.values.max(axis=0), [24.3, 47.0, 27.0])


def test_a_day_without_change_counts_as_no_rise() -> None:
    flow = load().values[:, 0]
    changes = np.diff(flow)
    assert [int((changes > 0).sum()), int((changes < 0).sum()), int((changes == 0).sum())] == [563, 794, 103]
    np.testing.assert_array_equal(examples(load()).y, np.where(changes[6:] > 0, 1.0, -1.0))


def test_an_example_knows_the_seven_days_before_its_own_and_nothing_later() -> None:
    series, days = load(), examples(load())
    week = series.values[40:47].copy()
    week[:, 0] = np.log(week[:, 0])
    assert days.dates[40] == series.dates[47]
    np.testing.assert_array_equal(days.X[40], week.ravel())


def test_scaling_uses_the_reference_alone() -> None:
    days = examples(load())
    scaled = scale_by(days[:730], days)
    assert scaled[:730].X.min() == 0.0
    assert scaled[:730].X.max() == 1.0
    assert scaled.X.max() > 1.0
    np.testing.assert_array_equal(scale_by(days[:730], days[:800]).X, scaled[:800].X)
    np.testing.assert_array_equal(scaled.y, days.y)
