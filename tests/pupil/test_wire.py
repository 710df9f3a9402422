"""The wire: every value an answer may be crosses whole, and no bytes do anything but fail cleanly."""

from __future__ import annotations

import contextlib
import io
import json
import struct
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from grader.pupil import tree, wire
from grader.pupil.copies import same
from grader.pupil.wire import Closed, Foreign, WireError, pack, receive, send, unpack
from grader.transformer import WEIGHTS, Transformer

NAN = float("nan")
DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2, torch.int64,
    torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64,
    torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip


def crossed(value):
    stream = io.BytesIO()
    send(stream, value)
    stream.seek(0)
    return receive(stream)


hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
tensors = st.builds(
    lambda seed, shape, dtype: torch.randint(
        0, 2, shape, generator=torch.Generator().manual_seed(seed)
    ).to(dtype),
    st.integers(0, 99),
    st.lists(st.integers(0, 3), max_size=4),
    st.sampled_from(DTYPES),
)
values = st.recursive(
    hashable | st.floats() | st.complex_numbers() | tensors | st.sets(hashable, max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(hashable, inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=80, deadline=None)
@given(values)
def test_values_come_back_bit_for_bit(value) -> None:
    assert same(crossed(value), value)


@pytest.mark.parametrize(
    "value",
    [
        {(0, 1), (2, 3)},
        {(0, 1): torch.ones(2), None: NAN, 1.5: float("-inf"), True: "x"},
        complex(NAN, -0.0),
        -0.0,
        "\ud800",  # a lone surrogate is a legal Python string
        torch.tensor(NAN),
        torch.zeros(3, 0, 2),
    ],
)
def test_odd_values_cross(value) -> None:
    assert same(crossed(value), value)


def test_any_layout_of_memory_crosses() -> None:
    base = torch.randn(4, 6)
    for tensor in (base.T, base[::2, 1::3], base[1].expand(5, 6), base.to(torch.complex64).conj()):
        assert torch.equal(crossed(tensor), tensor)
    pair = crossed((base, base, base[:1]))
    assert torch.equal(pair[0], pair[1])
    assert torch.equal(pair[2], base[:1])


def test_requires_grad_crosses() -> None:
    weight = torch.ones(2, requires_grad=True)
    assert crossed(weight).requires_grad
    assert crossed(weight * 2).requires_grad
    assert crossed(torch.nn.Parameter(weight)).requires_grad
    assert not crossed(torch.ones(2)).requires_grad


def test_numpy_comes_back_as_numpy_and_its_scalars_as_numbers() -> None:
    for array in (
        np.arange(6.0).reshape(2, 3).T, np.array(3), np.array([True]), np.ones(2, ">f4"),
        np.array([1 + 2j], np.complex64), np.ones(2, np.uint16), np.zeros((0, 2)), np.float16([1]),
    ):  # fmt: skip
        back = crossed(array)
        assert isinstance(back, np.ndarray)
        assert np.array_equal(back, array)
    for scalar in (np.float32(2.5), np.int8(3), np.bool_(True), np.complex64(1j), np.float64(NAN)):
        back = crossed(scalar)
        assert type(back) in (float, int, bool, complex)
        assert back == scalar or scalar != scalar


def test_a_model_crosses_as_its_weights() -> None:
    model = Transformer.random(
        n_layers=2, n_heads=2, d_model=3, d_head=4, d_vocab=5, n_ctx=6, pos_in_stream=True
    )
    back = crossed({"model": model})["model"]
    assert isinstance(back, Transformer)
    assert same(back.weights(), model.weights())
    assert back.pos_in_stream


def test_a_model_of_the_learners_own_class_crosses_as_a_dict() -> None:
    class Mine:
        pass

    mine = Mine()
    for name in WEIGHTS:
        setattr(mine, name, torch.ones(2))
    assert set(crossed(mine)) == set(WEIGHTS)


class Thing:
    pass


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ((i for i in ()), "generator"),
        (b"bytes", "bytes"),
        (Thing(), "Thing"),
        (len, "builtin_function_or_method"),
        (np.array(["a"]), "ndarray of <U1"),
        (np.array([None]), "ndarray of object"),
        (range(3), "range"),
    ],
)
def test_other_types_come_back_as_a_name(value, name) -> None:
    back = crossed([value, 1])
    assert isinstance(back[0], Foreign)
    assert type(back[0]).__name__ == name
    assert back[1] == 1


def test_tensors_without_numbers_keep_that() -> None:
    assert crossed(torch.empty(2, 3, device="meta")).is_meta
    sparse = crossed(torch.eye(3).to_sparse())
    assert sparse.is_sparse
    assert sparse.shape == (3, 3)


def test_what_is_too_much_is_refused_before_it_is_copied() -> None:
    huge = torch.ones(1).expand(2**40)
    ring: list[object] = []
    ring.append(ring)
    for value in (huge, ring, 10**400, "x" * 200_000, list(range(tree.MOST_NODES + 1))):
        with pytest.raises(WireError):
            pack(value)
    with pytest.raises(WireError, match="MiB"):
        pack(torch.zeros(2000), cap=4096)


def body(node, tensors: bytes = b"") -> bytes:
    text = node if isinstance(node, bytes) else json.dumps(node).encode()
    return struct.pack(">I", len(text)) + text + tensors


def table(**entries) -> bytes:
    header = json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header


ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\0",
        struct.pack(">I", 2**31) + b"x" * 50,
        struct.pack(">I", 90) + b"[]",
        body(b"\xff\xfe"),
        body(b"NaN"),
        body(b"[" * 100_000 + b"]" * 100_000),
        body(b"[" + b"[]," * 2_000_000 + b"[]]"),
        body(b"1" * 10_000),
        body({"a": 1}),
        body([]),
        body(["eval", "1"]),
        body([["list"]]),
        body(["dict", 1]),
        body(["dict", ["list"], 1]),
        body(["set", ["list"]]),
        body(["float", "1"]),
        body(["float"]),
        body(["complex", 1, 2]),
        body(["tensor", "0", False, False]),
        body(["tensor", ["0"], False, False]),
        body(["array", "0"]),
        body(["model", True]),
        body(["model", *[1] * 8]),
        body(["hollow", "meta", -1]),
        body(["hollow", "meta", *[2**30] * 16]),
        body(["hollow", "sparse", "3"]),
        body(["foreign", "a\nb"]),
        body(["foreign", 3]),
        body(["foreign", "x" * 1000]),
        body(json.loads("[" * 45 + "]" * 45)),
        body(1, b"junk"),
        body(1, table(a=ONE) + b"\0\0\0\0"),
        body(["tensor", "a", False, False], table(a=ONE) + b"\0"),
        body(["tensor", "a", True, False], table(a=ONE) + b"\0\0\0\0"),
        body(["tensor", "a", False, True], table(a={**ONE, "dtype": "I32"}) + b"\0\0\0\0"),
        body(
            ["array", "a", False],
            table(a={**ONE, "dtype": "BF16", "data_offsets": [0, 2]}) + b"\0\0",
        ),
        body(["tensor", "a", False, False], table(a={**ONE, "dtype": "PICKLE"}) + b"\0\0\0\0"),
        body(
            ["tensor", "a", False, False], table(a={**ONE, "shape": [2**40, 2**40]}) + b"\0\0\0\0"
        ),
        body(
            ["tensor", "a", False, False],
            table(a={"dtype": "F32", "shape": [0, 2**63], "data_offsets": [0, 0]}),
        ),
        body(["list", *[["tensor", "a", False, False]] * 2], table(a=ONE) + b"\0\0\0\0"),
        struct.pack(">I", 1) + b"1" + struct.pack("<Q", 2**60) + b"{}",
    ],
)
def test_a_malformed_frame_is_a_wire_error(frame) -> None:
    with pytest.raises(WireError):
        unpack(frame)


SAMPLE = pack({"a": [torch.arange(3.0), 1.5, (NAN, {2})], "b": np.ones(2), (0, 1): torch.eye(2)})


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_frames_never_raise_anything_else(data) -> None:
    frame = bytearray(SAMPLE)
    for _ in range(data.draw(st.integers(1, 6))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(frame)))
    for damaged in (bytes(frame), bytes(frame[:cut])):
        with contextlib.suppress(WireError):
            unpack(damaged)


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=300), st.binary(max_size=100))
def test_garbage_never_raises_anything_else(text, rest) -> None:
    for frame in (text, body(text, rest), body(b"1", text)):
        with contextlib.suppress(WireError):
            unpack(frame)


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
        | st.sampled_from([*tree._READERS, "0", "meta", "nan"]),
        lambda inner: st.lists(inner, max_size=6)
        | st.tuples(st.sampled_from(list(tree._READERS)), inner).map(list)
        | st.lists(inner, max_size=4).map(lambda parts: ["dict", *parts]),
        max_leaves=20,
    )
)  # fmt: skip
def test_wild_trees_never_raise_anything_else(node) -> None:
    with contextlib.suppress(WireError):
        unpack(body(json.dumps(node, allow_nan=False).encode(), table(**{"0": ONE}) + b"\0\0\0\0"))


def test_a_lying_length_takes_no_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="at most"):
            receive(io.BytesIO(struct.pack(">Q", 2**62) + b"x"))
        with pytest.raises(Closed):
            receive(io.BytesIO(struct.pack(">Q", wire.CAP) + b"x" * 100))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20


def test_the_end_of_the_stream_is_told_apart() -> None:
    with pytest.raises(Closed):
        receive(io.BytesIO(b""))


def test_a_stream_that_takes_little_at_a_time_gets_all() -> None:
    class Narrow(io.BytesIO):
        def write(self, data) -> int:
            return super().write(bytes(data[:7]))

        def read(self, size=-1) -> bytes:
            return super().read(min(size, 3))

    stream = Narrow()
    send(stream, {"x": torch.arange(50)})
    stream.seek(0)
    assert torch.equal(receive(stream)["x"], torch.arange(50))
