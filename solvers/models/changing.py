"""Models with parameters that can be changed after training, and with warnings about badly scaled features."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray

from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.homotopy.run import Trace
from livesvm.solvers.models.base import KERNEL_PARAMETERS, LiveEstimator
from livesvm.solvers.models.change import Batch, Change, Edits
from livesvm.solvers.models.repeats import OnRepeat
from livesvm.solvers.models.report import UpdateReport
from livesvm.solvers.models.warnings import ModelWarning, warnings_of
from livesvm.solvers.tables import columns as table_columns
from livesvm.solvers.validation import Key


class ChangingEstimator(LiveEstimator):
    """A live estimator with warnings, and with parameters that can all be changed."""

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        keys: Iterable[Key] | None = None,
        on_repeat: OnRepeat = "refuse",
    ) -> Self:
        """Add examples to the window: the same as ``update(add=(X, y))``.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (m, d)
            Rows, in the units of the features. With the kernel "precomputed" kernel values (m, n) with the window's
            examples, oldest first; with a function for a kernel, what that takes.
        y : array_like, shape (m,), or None, default None
            Targets; of positive and unlabelled examples 1 and 0; of a one-class model ignored.
        sample_weight : array_like, shape (m,), or None, default None
            Weights that multiply C, in [0, 1e100]; ones by default.
        keys : iterable of str or int, or None, default None
            A name for each row; unused whole numbers by default.
        on_repeat : {"refuse", "ignore", "replace"}, default "refuse"
            What becomes of a row with a key of the window, as in ``update``.

        Returns
        -------
        Self
            The model.

        Raises
        ------
        InvalidInput, DuplicateKey
            See the message; the model is as it was.
        NotPositiveSemidefinite, NotOptimal, MemoryLimit
            The path could not be followed; the model is as it was.
        """
        self.update((X, y), keys=keys, sample_weight=sample_weight, on_repeat=on_repeat)
        return self

    def change(self, **parameters: Any) -> UpdateReport:
        """Change parameters of the model and bring the window to the new optimum; all or nothing.

        If only parameters of the losses change, such as C and epsilon, the model follows one path to the optimum. Other
        parameters of the kernel or another ``scale`` define another problem, which is solved from nothing. In this
        case, ``gamma="scale"``, the scale of features, and an open ``prior`` and ``lam`` of positive and unlabelled
        examples are computed from the present window.

        Parameters
        ----------
        **parameters : Any
            New values by name, as of ``set_params``; of positive and unlabelled examples ``C`` stands for lam.

        Returns
        -------
        UpdateReport
            What the update did.

        Raises
        ------
        InvalidInput
            There is no such parameter, or it cannot be used.
        NotPositiveSemidefinite, NotOptimal, MemoryLimit
            The path could not be followed; the model is as it was.
        """
        self._check_fitted()
        parameters, known = self._own(parameters), self.get_params(deep=False)
        for name in parameters:
            if name not in known:
                raise InvalidInput(f"there is no such parameter; one of {', '.join(sorted(known))}", field=name)
        if self.kernel == "precomputed" and any(name in KERNEL_PARAMETERS for name in parameters):
            raise InvalidInput("a precomputed kernel cannot be changed; call fit", field="kernel")
        if parameters.get("kernel") == "precomputed":
            raise InvalidInput("the window has features, and not their kernel values; call fit", field="kernel")
        before = vars(self).copy()
        try:
            self._fix(parameters)
            vars(self).update(parameters)
            self._settle(parameters)
            if any(name in KERNEL_PARAMETERS for name in parameters):
                return self._resolved()
            if self._reset_parameters():
                return self.update()
            certificate = self.certificate()
            trace = Trace(max_violation=certificate.max_violation, relative_gap=certificate.relative_gap)
            return self._report(trace, (), (), 0, 0.0)
        except BaseException:
            self._take_back(before)
            raise

    def adopt(self, chosen: Mapping[str, Any]) -> UpdateReport:
        """Set the parameters that are "auto" to chosen values; all or nothing.

        The model follows a path if gamma, the columns and the scale of targets stay the same; otherwise the window is
        solved from nothing.

        Parameters
        ----------
        chosen : mapping
            Values by name, as ``choose`` finds them.

        Returns
        -------
        UpdateReport
            What the update did.

        Raises
        ------
        InvalidInput, NotPositiveSemidefinite, NotOptimal, MemoryLimit
            As of ``change``; the model is as it was.
        """
        before, now = vars(self).copy(), vars(self).get("columns_")
        is_same = chosen.get("gamma", self.gamma_) == self.gamma_
        is_same &= chosen.get("components", self.components_) == self.components_
        is_same &= chosen.get("target_scale", "none") == self.chosen_.get("target_scale", "none")
        try:
            if "columns" in chosen:
                columns = table_columns.given(chosen["columns"])
                is_same &= now is not None and columns.documents() == now.documents()
                self.columns_ = replace(columns, words=self.columns_.words)
            self.chosen_ = {name: value for name, value in chosen.items() if name != "columns"}
            if is_same:
                return self._learn(Change(), every_example=True)
            return self._resolved()
        except BaseException:
            self._take_back(before)
            raise

    def rescale(self) -> UpdateReport:
        """Fit the scale of features, or the encoding of columns, and a gamma that depends on it, to the present window.

        The kernel values of all examples change, so the window is solved from nothing.

        Returns
        -------
        UpdateReport
            What the update did.

        Raises
        ------
        InvalidInput
            The model has no scale, or its window is empty.
        """
        self._check_fitted()
        if self.scale == "none" and self.columns is None:
            raise InvalidInput("the model scales nothing; change(scale='standard') would", field="scale")
        if not self.n_window_:
            raise InvalidInput("the window is empty: there is nothing to fit a scale to", field="window")
        return self._resolved()

    def _with_more_landmarks(self, report: UpdateReport) -> UpdateReport:
        again = self._resolved()
        kept = {name: getattr(report, name) for name in ("added", "removed", "changed")}
        return again._replace(**kept, events=report.events + again.events, seconds=report.seconds + again.seconds)

    def _settle(self, parameters: dict[str, Any]) -> None:
        """Compute the values that new parameters leave open, before the window is solved with these parameters."""

    def _resolved(self) -> UpdateReport:
        """Solve the window from nothing with the present parameters, and adopt the result."""
        started = time.perf_counter()
        fresh = type(self)(**self.get_params(deep=False))
        keys: list[Key] = self.keys_
        if not keys:
            raise InvalidInput("the window is empty; call fit with other parameters", field="window")
        self._hand_over(fresh)
        X = self.window_X
        if "columns_" in vars(fresh) and fresh.columns_.kinds == self.columns_.kinds:
            X = self.window_features
        report = fresh._learn(Change(Batch(X, self.window_y, keys, self.window_sample_weight)))
        robust = self.robustness()
        if robust is not None:
            report = fresh._learn(Change(edits=Edits(robust=robust)))
        fresh._window.next_key = max(fresh._window.next_key, self._window.next_key)
        gone = {*self._learnt_names()} - {"feature_names_in_"}
        seconds = time.perf_counter() - started
        report = report._replace(added=(), changed=len(keys), seconds=seconds, retrained=True)
        self._take_back({name: value for name, value in vars(self).items() if name not in gone} | vars(fresh))
        return report

    classes_: NDArray[Any]  #: of a classifier

    def _hand_over(self, fresh: Self) -> None:
        """Copy to a fresh model what the window does not determine: classes, chosen parameters and columns."""
        if hasattr(self, "classes_"):
            fresh._know(self.classes_)
        if self.chosen_:
            fresh.chosen_ = self.chosen_
        if self.columns is None or "columns_" not in vars(self):
            return
        if self.columns == self._made_of["columns"]:
            fresh.columns_ = self.columns_
        elif self.columns != "auto":
            fresh.columns_ = replace(table_columns.given(self.columns), words=self.columns_.words)

    def _know(self, classes: Any) -> None:
        """Record classes before any example has come."""
        self.classes_ = classes

    @property
    def warnings_(self) -> list[ModelWarning]:
        """Conditions that make the model useless, with remedies; computed from the window when asked for."""
        return [*self.scale_warnings, *self.flagged_warnings]

    @property
    def scale_warnings(self) -> list[ModelWarning]:
        """Return warnings about the scale of the features; takes the kernel values of some hundred examples."""
        return warnings_of(self._learnt, self.scale)
