"""Frames between a judge and a pupil: a length, a JSON tree, the tensors that its leaves name.

::

    frame   = length of the body (8 bytes, big endian) + body
    body    = length of the tree (4 bytes, big endian) + tree (JSON, UTF-8) + tensors (safetensors)

Nothing is pickled, so a frame can't run code. The judge treats every frame as hostile: lengths,
counts, depth, names and dtypes are checked before they are used, a frame is read no further than its
cap, and whatever is wrong with it is a WireError. Tensors come back contiguous; numpy arrays as
numpy, numpy scalars as Python numbers.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO, NoReturn

import safetensors.numpy
import safetensors.torch
from torch import Tensor

from grader.pupil.tree import MOST_NODES, Decoder, Encoder, Foreign, WireError, foreign

__all__ = [
    "CAP", "Closed", "Foreign", "WireError", "foreign", "pack", "receive", "send", "unpack", "write",
]  # fmt: skip

MIB = 2**20
CAP = 256 * MIB
LARGEST_TREE = 16 * MIB
MOST_TENSORS = 10_000
_CHUNK = MIB


class Closed(WireError):
    """The other side is gone: the stream ended where a frame was due."""


def pack(value: Any, cap: int = CAP) -> bytes:
    """The body of a frame. Raises WireError where the value is too large, too deep or too long.

    A part of a type that doesn't cross goes as its type's name and comes out as a ``Foreign``.
    """
    encoder = Encoder(cap)
    tree = encoder.encode(value)
    text = json.dumps(tree, allow_nan=False, separators=(",", ":")).encode()
    tensors = _saved(encoder.tensors) if encoder.tensors else b""
    body = struct.pack(">I", len(text)) + text + tensors
    if len(text) > LARGEST_TREE or len(encoder.tensors) > MOST_TENSORS or len(body) > cap:
        raise WireError(
            f"The value takes {len(body) / MIB:,.0f} MiB and {len(encoder.tensors):,} arrays; at most "
            f"{cap / MIB:,.0f} MiB and {MOST_TENSORS:,} arrays can be handed in at once."
        )
    return body


def _saved(tensors: dict[str, Tensor]) -> bytes:
    """safetensors' bytes; by way of numpy, which is four times as fast for small arrays."""
    try:
        return safetensors.numpy.save({name: tensor.numpy() for name, tensor in tensors.items()})
    except TypeError:  # bfloat16 and its like, which numpy lacks
        return safetensors.torch.save(_unshared(tensors))


def _unshared(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """safetensors refuses two names for one memory; a learner may well answer with a pair (x, x)."""
    seen: set[int] = set()
    kept = {}
    for name, tensor in tensors.items():
        where = tensor.untyped_storage().data_ptr()
        kept[name] = tensor.clone() if where in seen else tensor
        seen.add(where)
    return kept


def unpack(body: bytes) -> Any:
    """The value in a frame's body. Raises WireError, whatever the bytes are."""
    try:
        (size,) = struct.unpack_from(">I", body)
    except struct.error:
        raise WireError("The frame is broken: it is shorter than its own head.") from None
    if size > LARGEST_TREE or 4 + size > len(body):
        raise WireError("The frame is broken: its tree is longer than the frame or its cap.")
    decoder = Decoder(_tensors(body[4 + size :]))
    value = decoder.decode(_tree(body[4 : 4 + size]))
    decoder.finish()
    return value


def _tree(text: bytes) -> Any:
    if text.count(b",") + text.count(b"[") + text.count(b"{") > 2 * MOST_NODES:
        raise WireError("The frame is broken: its tree has too many nodes.")
    try:
        return json.loads(text.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise WireError("The frame is broken: its tree is not JSON.") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _tensors(data: bytes) -> dict[str, Tensor]:
    if not data:
        return {}
    header = int.from_bytes(data[:8], "little")
    if header > LARGEST_TREE or data[8 : 8 + header].count(b"data_offsets") > MOST_TENSORS:
        raise WireError("The frame is broken: it names too many tensors.")
    try:
        return safetensors.torch.load(data)
    except Exception as error:  # the library's own, and torch's for shapes past its integers
        raise WireError(f"The frame is broken: {type(error).__name__} in its tensors.") from None


def send(stream: BinaryIO, value: Any, cap: int = CAP) -> None:
    """Write one frame; whoever buffers the stream also flushes it.

    Raises WireError as ``pack`` does (nothing is written), OSError if it can't.
    """
    write(stream, pack(value, cap))


def write(stream: BinaryIO, body: bytes) -> None:
    """Write a packed body as one frame. Raises OSError where the other side is gone."""
    head = struct.pack(">Q", len(body))
    # In one piece where it is small: else the other side wakes up for the head alone.
    for part in (head + body,) if len(body) <= _CHUNK else (head, body):
        left = memoryview(part)
        while left:
            left = left[stream.write(left) :]


def receive(stream: BinaryIO, cap: int = CAP) -> Any:
    """Read one frame: waits for it, takes no more memory than really came, and at most ``cap``.

    Raises Closed at the end of the stream, WireError for anything that isn't a frame.
    """
    (size,) = struct.unpack(">Q", _read(stream, 8))
    if size > cap:
        raise WireError(f"The frame says it is {size:,} bytes long; at most {cap:,} are taken.")
    return unpack(_read(stream, size))


def _read(stream: BinaryIO, size: int) -> bytes:
    parts, missing = [], size
    while missing:
        part = stream.read(min(missing, _CHUNK))
        if not part:
            raise Closed("The other side closed the connection.")
        parts.append(part)
        missing -= len(part)
    return b"".join(parts)
