"""The display on a terminal while a command sends readings: progress, forecasts, and errors of earlier forecasts."""

from __future__ import annotations

from typing import Any


class Board:
    """A progress bar, and below it the forecasts of each step with past errors; shown only on a terminal."""

    def __init__(self, total: int, wanted: bool) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self.is_shown = wanted and console.is_terminal
        columns = TextColumn("readings"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        self._bars = Progress(*columns, console=console)
        self._bar = self._bars.add_task("readings", total=total)
        self._live = Live(self._bars, console=console, transient=True)

    def __enter__(self) -> Board:
        if self.is_shown:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_shown:
            self._live.stop()

    def show(self, done: int, answer: dict[str, Any], feed: dict[str, Any]) -> None:
        """Move the progress bar, and show the newest forecasts with the errors of earlier forecasts."""
        if not self.is_shown:
            return
        from rich.console import Group
        from rich.table import Table

        self._bars.update(self._bar, completed=done)
        table = Table("step", "forecast", "low", "high", "error", "last value's", "coverage", box=None)
        scores = {one["step"]: one for one in feed.get("recent", [])}
        for one in answer["forecasts"][:12]:
            record = scores.get(one["step"], {})
            numbers = [one["value"], one["low"], one["high"]] if "low" in one else [one["value"], None, None]
            numbers += [record.get(name) for name in ("mae", "last_value_mae", "coverage")]
            table.add_row(str(one["step"]), *("-" if value is None else f"{value:.4g}" for value in numbers))
        self._live.update(Group(self._bars, table))
