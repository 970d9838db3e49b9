"""CSV answers hold nothing that a spreadsheet runs, and every number as it was."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from livesvm.service.api.examples import encoded
from livesvm.service.api.fleet_tables import csv_of
from livesvm.service.cli.app import app
from livesvm.service.cli.files import write_predictions
from livesvm.service.feeds.cells import FORMULA
from livesvm.service.fleets.presenter import COLUMNS
from livesvm.service.models.examples import WindowPage

texts = st.text(st.sampled_from("=+-@\t\r\n'\",;1.5eEa| "), min_size=1, max_size=8)


def is_inert(text: str) -> bool:
    """Return whether a spreadsheet takes a cell for a number or for text."""
    if not text.startswith(FORMULA):
        return True
    try:
        return float(text) == float(text.strip()) and text == text.strip()
    except ValueError:
        return False


def cells(data: bytes | str) -> list[list[str]]:
    """Return the cells of a table, row by row."""
    text = data.decode() if isinstance(data, bytes) else data
    return list(csv.reader(io.StringIO(text, newline="")))


@given(st.lists(st.tuples(texts, texts, st.floats(-1e6, 1e6)), min_size=1, max_size=5, unique_by=lambda one: one[0]))
def test_no_text_in_a_csv_answer_is_a_formula(rows: list[tuple[str, str, float]]) -> None:
    keys, labels, numbers = (list(column) for column in zip(*rows, strict=True))
    x, n = np.array(numbers), len(rows)
    flags, sides = np.zeros(n, np.bool_), np.zeros(n, np.int8)
    page = WindowPage(1, n, None, [*keys], x[:, None], np.array(labels), x, np.zeros(n), sides, x, flags)
    examples = cells(encoded(page, "csv"))
    named = [dict.fromkeys(COLUMNS) | {"series": key, "value": number} for key, _, number in rows]
    forecasts = cells(csv_of(named))
    for table, column in ((examples, 1), (forecasts, COLUMNS.index("value"))):
        assert all(is_inert(cell) for line in table for cell in line)
        assert [float(line[column]) for line in table[1:]] == numbers
    assert [line[0].removeprefix("'") for line in examples[1:]] == [key.removeprefix("'") for key in keys]


def test_predictions_in_a_file_are_no_formulas(tmp_path: Path) -> None:
    answer: dict[str, Any] = {"decision": [-1.5, 2.0], "prediction": ["=1+1", "-2"], "set": [["@a", "b"], ["c"]]}
    write_predictions(tmp_path / "out.csv", answer)
    table = cells((tmp_path / "out.csv").read_text())
    assert table[1:] == [["-1.5", "'=1+1", "'@a b"], ["2.0", "-2", "c"]]


@pytest.mark.parametrize("command", ["feed", "fleet"])
@pytest.mark.parametrize("steps", ["a", "1,", "1,b", "-1", "1.5"])
def test_steps_that_are_no_numbers_are_refused_by_name(command: str, steps: str) -> None:
    done = CliRunner().invoke(app, [command, "forecast", "f", f"--steps={steps}"])
    assert done.exit_code == 2
    assert "--steps" in done.output
    assert "is no whole number" in done.output
