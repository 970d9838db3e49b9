"""Files of examples made into arrays: what each format holds, and where one is wrong."""

from __future__ import annotations

import gzip
import io
import zipfile
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from scipy import sparse

from livesvm.service.datasets import parsing
from livesvm.service.datasets.arrays import Arrays
from livesvm.service.datasets.parsing import parse
from livesvm.service.store.base import StoreDamaged
from livesvm.solvers.errors import InvalidInput
from tests.support.npz import parquet_of

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(30, 4)), 3)
Y = np.where(X[:, 0] > 0, 1.0, -1.0)
in_groups = partial(parquet_of, row_group_size=7)


def parsed(directory: Path, format: str, data: bytes, **asked: Any) -> Arrays:
    """Return the arrays of a file."""
    (directory / "upload").write_bytes(data)
    limits = {"most_bytes": 2**20, "most_features": 100}
    place = {"file": str(directory / "upload"), "directory": str(directory), "format": format}
    described = parse(limits | place | asked, lambda _: None)
    return Arrays(directory, described | {"name": "d"})


def npz(**members: Any) -> bytes:
    out = io.BytesIO()
    np.savez_compressed(out, **members)
    return out.getvalue()


def csr_npz(A: Any, **members: Any) -> bytes:
    return npz(data=A.data, indices=A.indices, indptr=A.indptr, shape=A.shape, format=b"csr", **members)


def lines_of(A: Any, origin: int = 1) -> bytes:
    """Return a sparse array as svmlight."""
    out = []
    for i, label in enumerate(Y):
        row = A[[i]]
        entries = " ".join(f"{j + origin}:{v!r}" for j, v in zip(row.indices.tolist(), row.data.tolist(), strict=True))
        out.append(f"{label:g} {entries} # {i}\n")
    return "".join(out).encode()


def table_of(head: str = "") -> bytes:
    rows = np.column_stack([X, Y]).tolist()
    return (head + "".join(",".join(map(repr, row)) + "\n" for row in rows)).encode()


def displaced(data: bytes) -> bytes:
    """Return a zip whose end says that its directory is behind the end."""
    end = data.rindex(b"PK\5\6")
    return data[: end + 18] + b"\xff" + data[end + 19 :]


def by_method(method: int) -> bytes:
    """Return an npz file compressed otherwise than NumPy does it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, array in (("X.npy", X), ("y.npy", Y)):
            member = io.BytesIO()
            np.save(member, array)
            archive.writestr(name, member.getvalue())
    return out.getvalue()


DENSE = {
    "C order": ("npz", npz(X=X, y=Y)),
    "Fortran order": ("npz", npz(X=np.asfortranarray(X), y=Y)),
    "integers": ("npz", npz(X=X, y=Y.astype(np.int8))),
    "the other order of bytes": ("npz", npz(X=X.astype(">f8"), y=Y.astype(">i2"))),
    "table": ("csv", table_of()),
    "table with a head in quotes": ("csv", table_of('"a, first","b","c","d","y"\r\n')),
    "table with a head": ("csv", table_of("a,b,c,d,label\n")),
    "table between tabs": ("csv", table_of().replace(b",", b"\t")),
    "parquet": ("parquet", in_groups({**{f"x{j}": X[:, j] for j in range(4)}, "y": Y.astype(np.int32)})),
}


WORDS = np.where(Y > 0, "a bee", "Äpe")
OF_WORDS = {
    "npz": ("npz", npz(X=X, y=WORDS)),
    "npz in the other order of bytes": ("npz", npz(X=X, y=WORDS.astype(WORDS.dtype.newbyteorder()))),
    "table": (
        "csv",
        (
            "a,b,c,d,y\n"
            + "".join(",".join([*map(repr, row), word]) + "\n" for row, word in zip(X.tolist(), WORDS, strict=True))
        ).encode(),
    ),
    "parquet": ("parquet", in_groups({**{f"x{j}": X[:, j] for j in range(4)}, "y": WORDS.tolist()})),
}


@pytest.mark.parametrize("name", OF_WORDS)
def test_labels_may_be_words(name: str, tmp_path: Path) -> None:
    found = parsed(tmp_path, *OF_WORDS[name])
    np.testing.assert_array_equal(found.X(), X)
    assert found.y() is not None
    assert found.y().tolist() == WORDS.tolist()  # type: ignore[union-attr]
    assert found._described["labels"] == ["a bee", "Äpe"]


@pytest.mark.parametrize(
    ("format", "data", "place"),
    [
        ("npz", npz(X=X, y=np.array(["a"] * 29 + [""])), ("y", 29)),
        ("npz", npz(X=X, y=np.array(["a"] * 29 + ["b" * 129])), ("y", 29)),
        ("npz", npz(X=X, y=np.array(["a"] * 29 + ["b" * 300])), ("y", None)),
        ("npz", npz(X=np.ones((1001, 1)), y=np.arange(1001).astype(str)), ("y", None)),
        ("csv", b"a,y\n1,ape\n2,\n", ("y", 1)),
        ("csv", b"a,y\n1,2\n2,ape\n", ("body", 1)),
        ("csv", b"a,y\nape,ape\n", ("body", 0)),
        ("csv", b"1,ape\n2,bee\n", ("body", 0)),  # the first row is no head
    ],
)
def test_what_is_no_label_is_reported_by_its_row(format: str, data: bytes, place: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed(tmp_path, format, data)
    assert (caught.value.field, caught.value.row) == place


@pytest.mark.parametrize("name", DENSE)
def test_dense_examples_come_back(name: str, tmp_path: Path) -> None:
    found = parsed(tmp_path, *DENSE[name])
    assert np.array_equal(found.X(), X)
    assert np.array_equal(np.asarray(found.y()), Y)
    assert found.weights() is None


A = sparse.random_array((30, 50), density=0.1, format="csr", rng=1)


def saved(B: Any) -> bytes:
    """Return a sparse array as SciPy saves it, with targets next to it."""
    out = io.BytesIO()
    sparse.save_npz(out, B)
    return npz(**np.load(io.BytesIO(out.getvalue())), y=Y)


@pytest.mark.parametrize(
    ("format", "data"),
    [
        ("npz", csr_npz(A, y=Y)),
        ("npz", saved(A)),
        ("npz", saved(sparse.csr_matrix(A))),
        ("svmlight", lines_of(A)),
        ("svmlight", lines_of(sparse.csr_array(A), 0)),
    ],
)
def test_sparse_examples_stay_sparse(format: str, data: bytes, tmp_path: Path) -> None:
    found = parsed(tmp_path, format, data)
    B = found.X()
    assert sparse.issparse(B)
    assert not (tmp_path / "X").exists()
    assert (B.toarray() == A.toarray()[:, : B.shape[1]]).all()
    assert B.nnz == A.nnz
    assert np.array_equal(np.asarray(found.y()), Y)


def test_columns_are_chosen_by_name_and_by_number(tmp_path: Path) -> None:
    table = b"y,weight,x\n1,0.5,7\n-1,2,8\n"
    for chosen in ({"target": "y", "weights": "weight"}, {"target": "0", "weights": "1"}, {"weights": "weight"}):
        found = parsed(tmp_path, "csv", table, **chosen)
        assert found.X().tolist() == [[7.0], [8.0]]
        assert np.asarray(found.y()).tolist() == [1.0, -1.0]
        assert np.asarray(found.weights()).tolist() == [0.5, 2.0]


@pytest.mark.parametrize(
    ("asked", "field", "reason"),
    [
        ({"target": "a"}, "target", "several columns"),
        ({"target": "w", "weights": "w"}, "weights", "targets too"),
        ({"key": "w", "weights": "w"}, "key", "weights too"),
        ({"target": "z"}, "target", "no column"),
    ],
)
def test_columns_that_cannot_be_meant(asked: dict[str, str], field: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=reason) as caught:
        parsed(tmp_path, "csv", b"a,a,w,y\n1,2,3,1\n", **asked)
    assert caught.value.field == field


def test_labels_in_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="several columns 'y'"):
        parsed(tmp_path, "csv", b"a,y,y\n1,2,3\n")


@pytest.mark.parametrize("name", ["target", "weights", "key"])
@pytest.mark.parametrize(("format", "data"), [("npz", npz(X=X, y=Y)), ("svmlight", b"1 1:2\n")])
def test_columns_are_of_tables_alone(name: str, format: str, data: bytes, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="column of a table") as caught:
        parsed(tmp_path, format, data, **{name: "0"})
    assert caught.value.field == name


TABLE = "Größe;y\n1,5;Äpe\n1002,25;Öpe\n"
DIALECTS = {
    "latin-1": TABLE.encode("latin-1"),
    "utf-16": TABLE.replace(";", "\t").encode("utf-16"),
    "title, units and thousands": ("Werk 7\n\n" + TABLE.replace("y\n", "y\n[cm];\n").replace("1002", "1.002")).encode(),
    "packed": gzip.compress(TABLE.encode()),
    "comments and separators at the end": ("# by hand\n" + TABLE.replace("\n", ";\n")).encode(),
    "blanks": TABLE.replace(",", ".").replace(";", "   ").encode(),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_a_table_may_have_any_dialect(name: str, tmp_path: Path) -> None:
    found = parsed(tmp_path, "csv", DIALECTS[name])
    assert found.X().tolist() == [[1.5], [1002.25]]
    assert np.asarray(found.y()).tolist() == ["Äpe", "Öpe"]


def test_options_decide_how_a_table_is_read(tmp_path: Path) -> None:
    table = b"a;y\n1,234;1\n2,345;-1\n"
    with pytest.raises(InvalidInput, match="say --decimal") as caught:
        parsed(tmp_path, "csv", table)
    assert caught.value.field == "decimal"
    for mark, value in ((",", 1.234), (".", 1234.0)):
        found = parsed(tmp_path, "csv", table, options={"decimal": mark})
        assert found.X().tolist()[0] == [value]
        assert found._described["understood"]["separator"] == "semicolon"


def test_parquet_with_text_that_is_not_utf8_or_an_index(tmp_path: Path) -> None:
    import pyarrow as pa

    words = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 2], np.int32)), pa.py_buffer(b"\x80\x81"))
    with pytest.raises(InvalidInput, match=r"no text in UTF-8|not a parquet file"):
        parsed(tmp_path, "parquet", in_groups({"x": [1.0, 2.0], "y": words}))
    data = in_groups({"x": [1.0, 2.0], "y": [1, -1], "__index_level_0__": [7, 3]})
    with pytest.raises(InvalidInput, match="index of a pandas table") as caught:
        parsed(tmp_path, "parquet", data)
    assert caught.value.column == 2
    assert parsed(tmp_path, "parquet", data, key="__index_level_0__", salt="00").width == 1


def test_what_is_too_large_to_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setitem(parsing._READERS, "csv", read)
    with pytest.raises(InvalidInput, match="too large to be read"):
        parsed(tmp_path, "csv", b"1,2\n")


def test_many_blocks_are_one_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from livesvm.service.datasets import arrays, npz_file, text_table
    from livesvm.service.files import svmlight

    for module, name in ((arrays, "BLOCK"), (npz_file, "BLOCK"), (svmlight, "BYTES"), (text_table, "NUMBERS")):
        monkeypatch.setattr(module, name, 7)
    for name in DENSE:
        assert np.array_equal(parsed(tmp_path, *DENSE[name]).X(), X)
    for format, data in (("npz", csr_npz(A, y=Y)), ("svmlight", lines_of(A))):
        assert (parsed(tmp_path, format, data).X().toarray() == A.toarray()[:, :50]).all()


def with_entry(row: int, column: int, value: float) -> Any:
    changed = X.copy()
    changed[row, column] = value
    return changed


BAD: dict[str, tuple[str, bytes, str | None, int | None, int | None]] = {
    "a cell that is no number": ("csv", b"1,2,1\n3,x,1\n", "body", 1, 1),
    "an empty cell": ("csv", b"a,b\n1,\n", "body", 0, 1),
    "a column that no number holds": ("svmlight", b"1 2:1\n1 1:1 99999999999999999999:1\n", "body", 1, None),
    "a cell that NumPy does not take": ("csv", b"1,2,1\n1_000,2,1\n", "body", 1, 0),
    "a short line": ("csv", b"1,2,1\n\n3,1\n4,5,1\n6,7,1\n", "body", 1, None),
    "text under the header": ("csv", b"a,b,y\nx,z,1\n3,4,1\n5,6,1\n", "body", 0, None),
    "an infinite cell": ("csv", b"y,a,b\n1,2,1\n3,1,inf\n", "body", 1, 2),
    "an empty table": ("csv", b"\n", "body", None, None),
    "one column": ("csv", b"1\n2\n", "body", None, None),
    "an entry without a colon": ("svmlight", b"1 1:2\n-1 1:2 3\n", "body", 1, 2),
    "two colons": ("svmlight", b"1 1:2:3\n", "body", 0, 1),
    "a label that is none": ("svmlight", b"1 1:2\nyes 1:2\n", "body", 1, 0),
    "a value that is none": ("svmlight", b"1 1:2 2:x\n", "body", 0, 2),
    "columns that descend": ("svmlight", b"1 1:2\n1 3:2 2:1\n", "body", 1, None),
    "a NaN among the sparse": ("svmlight", b"1 1:2\n1 3:nan\n", "X", 1, 2),
    "too many features": ("svmlight", b"1 1:2\n1 101:1\n", "X", 1, 100),
    "no example": ("svmlight", b"# nothing\n", "body", None, None),
    "no zip": ("npz", b"PK nonsense", "body", None, None),
    "a NaN": ("npz", npz(X=with_entry(7, 2, np.nan), y=Y), "X", 7, 2),
    "too large": ("npz", npz(X=with_entry(29, 3, 1e200), y=Y), "X", 29, 3),
    "a NaN among the targets": ("npz", npz(X=X, y=with_entry(3, 0, np.nan)[:, 0]), "y", 3, None),
    "too few targets": ("npz", npz(X=X, y=Y[:-1]), "y", None, None),
    "no targets in y": ("npz", npz(X=X, y=Y[:0]), "y", None, None),
    "a directory that is nowhere": ("npz", displaced(npz(X=X, y=Y)), "body", None, None),
    "bzip2": ("npz", by_method(zipfile.ZIP_BZIP2), "X", None, None),
    "lzma": ("npz", by_method(zipfile.ZIP_LZMA), "X", None, None),
    "columns, not rows": ("npz", saved(sparse.csc_array(A)), "format", None, None),
    "objects": ("npz", npz(X=X.astype(object), y=Y), "X", None, None),
    "another member": ("npz", npz(X=X, y=Y, z=Y), "z", None, None),
    "no X": ("npz", npz(y=Y), "X", None, None),
    "no indptr": ("npz", npz(data=A.data, indices=A.indices, shape=A.shape), "indptr", None, None),
    "three dimensions": ("npz", npz(X=X[:, :, None], y=Y), "X", None, None),
    "a weight below 0": ("npz", npz(X=X, y=Y, weights=np.where(np.arange(30) == 4, -1.0, 1.0)), "weights", 4, None),
    "no parquet": ("parquet", b"PAR1", "body", None, None),
    "text in parquet": ("parquet", in_groups({"a": ["x"], "y": [1.0]}), "body", None, 0),
    "nothing in parquet": ("parquet", in_groups({"a": [1.0, None], "y": [1.0, 1.0]}), "body", 1, 0),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_reported_with_its_place(name: str, tmp_path: Path) -> None:
    format, data, field, row, column = BAD[name]
    with pytest.raises(InvalidInput) as caught:
        parsed(tmp_path, format, data)
    assert (caught.value.field, caught.value.row, caught.value.column) == (field, row, column)


def wrong_csr(**changed: Any) -> bytes:
    parts = {"data": A.data, "indices": A.indices, "indptr": A.indptr, "shape": np.array(A.shape)} | changed
    return npz(**parts, y=Y)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (wrong_csr(indices=np.where(np.arange(A.nnz) == 3, 50, A.indices)), "indices"),
        (wrong_csr(indices=np.zeros(A.nnz, np.int64)), "indices"),
        (wrong_csr(indptr=A.indptr[:-1]), "indptr"),
        (wrong_csr(indptr=A.indptr + 1), "indptr"),
        (wrong_csr(indptr=A.indptr[::-1].copy()), "indptr"),
        (wrong_csr(data=A.data[:-1]), "data"),
        (wrong_csr(shape=np.array([31, 50])), "indptr"),
        (wrong_csr(shape=np.array([30])), "shape"),
        (wrong_csr(shape=np.array([], np.int64)), "shape"),
        (wrong_csr(indptr=np.append(A.indptr[:-1], 2**62)), "indptr"),
        (wrong_csr(data=np.where(np.arange(A.nnz) == 3, np.inf, A.data)), "X"),
    ],
)
def test_a_sparse_array_that_is_none(data: bytes, field: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        parsed(tmp_path, "npz", data)
    assert caught.value.field == field


@pytest.mark.parametrize("order", ["C", "F"])
def test_no_more_is_unpacked_than_is_allowed(order: Literal["C", "F"], tmp_path: Path) -> None:
    bomb = npz(X=np.zeros((2**16, 20), order=order), y=np.ones(2**16))
    assert len(bomb) < 2**15
    with pytest.raises(InvalidInput, match="LIVESVM_DATASET_BYTES"):
        parsed(tmp_path, "npz", bomb)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 2**24


def test_a_member_that_ends_too_soon(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in (("X.npy", X), ("y.npy", Y)):
            member = io.BytesIO()
            np.save(member, array)
            archive.writestr(name, member.getvalue()[: -8 if name == "X.npy" else None])
    with pytest.raises(InvalidInput, match="fewer bytes"):
        parsed(tmp_path, "npz", out.getvalue())


def test_a_byte_that_has_changed_on_the_disk_is_noticed(tmp_path: Path) -> None:
    found = parsed(tmp_path, "npz", npz(X=X, y=Y))
    data = (tmp_path / "X").read_bytes()
    (tmp_path / "X").write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    with pytest.raises(StoreDamaged, match="X of dataset d"):
        Arrays(tmp_path, found._described)
