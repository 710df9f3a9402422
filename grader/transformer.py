"""The transformer that everybody in the course uses: attention only, and nothing hidden.

No MLP, no LayerNorm, no biases (the paper's simplified models, section "Transformer Overview").
Row vectors, weights on the right::

    x      = W_E[tokens]                                   (pos, d_model)
    q, k   = (x + W_pos) @ W_Q, (x + W_pos) @ W_K          (pos, d_head)   one head
    v      = x @ W_V                                       (pos, d_head)
    A      = softmax(causal(q @ k.T / sqrt(d_head)))       (dst, src)
    x      = x + sum over heads of A @ v @ W_O             (pos, d_model)
    logits = x @ W_U                                       (pos, d_vocab)

Positions enter queries and keys only, never the stream, as in the models of the paper. A model made
with ``pos_in_stream=True`` adds ``W_pos`` to the stream once and nowhere else; induction by pointer
arithmetic needs that.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

WEIGHTS = {
    "W_E": "d_vocab d_model",
    "W_U": "d_model d_vocab",
    "W_pos": "n_ctx d_model",
    "W_Q": "layer head d_model d_head",
    "W_K": "layer head d_model d_head",
    "W_V": "layer head d_model d_head",
    "W_O": "layer head d_head d_model",
}


@dataclass(frozen=True)
class Cache:
    """Everything one forward pass computed; ``...`` stands for the batch axes of ``tokens``.

    stream: (layer + 1, ..., pos, d_model), the residual stream before layer 0, after layer 0, …
    scores: (layer, ..., head, dst, src), divided by sqrt(d_head), before the mask
    pattern: (layer, ..., head, dst, src), rows sum to 1
    q, k, v: (layer, ..., head, pos, d_head)
    z: (layer, ..., head, pos, d_head), the pattern applied to v
    head_out: (layer, ..., head, pos, d_model), what each head adds to the stream
    """

    stream: Tensor
    scores: Tensor
    pattern: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    z: Tensor
    head_out: Tensor


class Transformer:
    """An attention-only transformer as its seven weights.

    W_E (d_vocab, d_model), W_U (d_model, d_vocab), W_pos (n_ctx, d_model); W_Q, W_K, W_V
    (layer, head, d_model, d_head); W_O (layer, head, d_head, d_model). Zero layers are allowed.
    ``tokenizer`` is whatever came with a shipped model, else None.

    Raises ValueError, naming the weight, the shape expected and the one that came.
    Paper: "Transformer Overview", "Notation".
    """

    def __init__(
        self,
        W_E: Tensor,
        W_U: Tensor,
        W_pos: Tensor,
        W_Q: Tensor,
        W_K: Tensor,
        W_V: Tensor,
        W_O: Tensor,
        *,
        pos_in_stream: bool = False,
        tokenizer: Any = None,
    ) -> None:
        self.W_E, self.W_U, self.W_pos = W_E, W_U, W_pos
        self.W_Q, self.W_K, self.W_V, self.W_O = W_Q, W_K, W_V, W_O
        self.pos_in_stream = bool(pos_in_stream)
        self.tokenizer = tokenizer
        self._check_shapes()

    def _check_shapes(self) -> None:
        sizes: dict[str, int] = {}
        for name, spec in WEIGHTS.items():
            weight, axes = getattr(self, name), spec.split()
            if not isinstance(weight, Tensor):
                raise ValueError(f"{name} must be a torch tensor; a {type(weight).__name__} came.")
            if weight.ndim != len(axes):
                raise ValueError(
                    f"{name} must have axes ({', '.join(axes)}); it has shape {tuple(weight.shape)}."
                )
            for axis, size in zip(axes, weight.shape, strict=True):
                if sizes.setdefault(axis, size) != size:
                    raise ValueError(
                        f"{name} has shape {tuple(weight.shape)}, axes ({', '.join(axes)}): "
                        f"{axis} is {size} here and {sizes[axis]} in the weights before it."
                    )

    @property
    def n_layers(self) -> int:
        return self.W_Q.shape[0]

    @property
    def n_heads(self) -> int:
        return self.W_Q.shape[1]

    @property
    def d_model(self) -> int:
        return self.W_E.shape[1]

    @property
    def d_head(self) -> int:
        return self.W_Q.shape[3]

    @property
    def d_vocab(self) -> int:
        return self.W_E.shape[0]

    @property
    def n_ctx(self) -> int:
        return self.W_pos.shape[0]

    def __repr__(self) -> str:
        return (
            f"Transformer(n_layers={self.n_layers}, n_heads={self.n_heads}, "
            f"d_model={self.d_model}, d_head={self.d_head}, "
            f"d_vocab={self.d_vocab}, n_ctx={self.n_ctx}"
            + (", pos_in_stream=True)" if self.pos_in_stream else ")")
        )

    def weights(self) -> dict[str, Tensor]:
        """The seven weights by name: the tensors themselves, not copies."""
        return {name: getattr(self, name) for name in WEIGHTS}

    def with_weights(self, **changed: Tensor) -> Transformer:
        """A copy with some weights replaced; the others are shared, this model stays as it was."""
        unknown = set(changed) - set(WEIGHTS)
        if unknown:
            raise ValueError(
                f"No weight is called {sorted(unknown)}; there are {', '.join(WEIGHTS)}."
            )
        return Transformer(
            **{**self.weights(), **changed},
            pos_in_stream=self.pos_in_stream,
            tokenizer=self.tokenizer,
        )

    def to(self, *args: Any, **kwargs: Any) -> Transformer:
        """A copy with every weight moved or cast, with the arguments of ``torch.Tensor.to``."""
        return self.with_weights(
            **{name: w.to(*args, **kwargs) for name, w in self.weights().items()}
        )

    def clone(self) -> Transformer:
        """A copy that shares no memory with this model."""
        return self.with_weights(**{name: w.detach().clone() for name, w in self.weights().items()})

    def parameters(self) -> list[Tensor]:
        """The seven weights as a list, for an optimiser."""
        return list(self.weights().values())

    @classmethod
    def from_weights(cls, weights: Mapping[str, Any]) -> Transformer:
        """A model from its seven weights in a mapping, ``"pos_in_stream"`` optional."""
        missing = set(WEIGHTS) - set(weights)
        if missing:
            raise ValueError(f"A model needs {', '.join(WEIGHTS)}; {sorted(missing)} did not come.")
        kept = {name: torch.as_tensor(weights[name]) for name in WEIGHTS}
        return cls(**kept, pos_in_stream=bool(weights.get("pos_in_stream", False)))

    @classmethod
    def random(
        cls,
        *,
        n_layers: int,
        n_heads: int,
        d_model: int,
        d_head: int,
        d_vocab: int,
        n_ctx: int,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float32,
        pos_in_stream: bool = False,
    ) -> Transformer:
        """A model with Gaussian weights of the size that keeps every activation near 1."""
        sizes = {
            "layer": n_layers, "head": n_heads, "d_model": d_model,
            "d_head": d_head, "d_vocab": d_vocab, "n_ctx": n_ctx,
        }  # fmt: skip
        scale = {"W_E": 1.0, "W_pos": 0.5, "W_O": d_head**-0.5}

        def draw(name: str, spec: str) -> Tensor:
            shape = [sizes[axis] for axis in spec.split()]
            noise = torch.randn(shape, generator=generator, dtype=torch.float64)
            return (noise * scale.get(name, d_model**-0.5)).to(dtype)

        return cls(**{n: draw(n, s) for n, s in WEIGHTS.items()}, pos_in_stream=pos_in_stream)

    def __call__(self, tokens: Tensor) -> Tensor:
        """tokens (..., pos) int64 → logits (..., pos, d_vocab)."""
        x = self.embed(tokens)
        for layer in range(self.n_layers):
            z = self._attend(x, layer)["z"]
            # One product for all heads together: what each wrote is not asked for.
            x = x + torch.einsum("...hpd,hdm->...pm", z, self.W_O[layer])
        return x @ self.W_U

    def run_with_cache(self, tokens: Tensor) -> tuple[Tensor, Cache]:
        """tokens (..., pos) int64 → logits (..., pos, d_vocab) and everything on the way there."""
        x = self.embed(tokens)
        room = self._room(x)
        stream, layers = [x], []
        for layer in range(self.n_layers):
            kept = self._attend(x, layer, {name: room[name][layer] for name in room})
            out = room["head_out"][layer] if room else None
            kept["head_out"] = torch.matmul(kept["z"], self.W_O[layer], out=out)
            x = x + kept["head_out"].sum(dim=-3)
            stream.append(x)
            layers.append(kept)
        parts = room or {name: torch.stack([kept[name] for kept in layers]) for name in layers[0]}
        logits = None
        if torch.is_inference_mode_enabled():
            logits = _new((*x.shape[:-1], self.d_vocab), x)
        logits = torch.matmul(x, self.W_U, out=logits)
        return logits, Cache(stream=torch.stack(stream), **parts)

    def _room(self, x: Tensor) -> dict[str, Tensor]:
        """Where a run in inference mode writes what it computes, all layers together; else nothing.

        Layers stacked at the end are all copied, which takes about as long as a layer. But what is
        written into a tensor that is there already can't be followed by autograd or torch.func.
        """
        if self.n_layers and not torch.is_inference_mode_enabled():
            return {}
        pos = x.shape[-2]
        last = {"scores": pos, "pattern": pos, "head_out": self.d_model}
        before = (self.n_layers, *x.shape[:-2], self.n_heads, pos)
        return {name: _new((*before, last.get(name, self.d_head)), x) for name in _CACHED}

    def embed(self, tokens: Tensor) -> Tensor:
        """tokens (..., pos) → the stream before layer 0, (..., pos, d_model)."""
        tokens = torch.as_tensor(tokens)
        if tokens.ndim == 0 or tokens.dtype.is_floating_point or tokens.dtype.is_complex:
            raise ValueError(
                f"tokens must be integer ids of shape (..., pos); "
                f"{tokens.dtype} of shape {tuple(tokens.shape)} came."
            )
        if tokens.shape[-1] > self.n_ctx:
            raise ValueError(
                f"The model reads at most {self.n_ctx} tokens; {tokens.shape[-1]} came."
            )
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < self.d_vocab:
            raise ValueError(
                f"Token ids must lie in 0 … {self.d_vocab - 1}; "
                f"{int(tokens.min())} … {int(tokens.max())} came."
            )
        x = self.W_E[tokens.long()]
        return x + self.W_pos[: tokens.shape[-1]] if self.pos_in_stream else x

    def qk_input(self, x: Tensor) -> Tensor:
        """What queries and keys read: x (..., pos, d_model), plus W_pos unless x holds it already."""
        return x if self.pos_in_stream else x + self.W_pos[: x.shape[-2]]

    def _attend(
        self, x: Tensor, layer: int, into: Mapping[str, Tensor] | None = None
    ) -> dict[str, Tensor]:
        """One layer's scores, pattern, q, k, v and z, written into the given tensors where there are any."""
        out = (into or {}).get
        with_positions = self.qk_input(x)
        q = _by_head(with_positions, self.W_Q[layer], out("q"))  # (..., head, pos, d_head)
        k = _by_head(with_positions, self.W_K[layer], out("k"))
        v = _by_head(x, self.W_V[layer], out("v"))
        scores = torch.matmul(
            q / self.d_head**0.5, k.mT, out=out("scores")
        )  # (..., head, dst, src)
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
        # The masked scores lie where the pattern will. That softmax may write where it reads, tests hold.
        never = scores.new_full((), -torch.inf)
        masked = torch.where(future, never, scores, out=out("pattern"))
        pattern = torch.softmax(masked, dim=-1, out=out("pattern"))
        z = torch.matmul(pattern, v, out=out("z"))
        return {"scores": scores, "pattern": pattern, "q": q, "k": k, "v": v, "z": z}

    def save(self, path: str | os.PathLike[str], **notes: Any) -> None:
        """Write the weights as safetensors; ``notes`` (JSON) travel in the file's header.

        Written beside the target and renamed: a reader never sees half a file.
        """
        path = Path(path)
        header = {"pos_in_stream": json.dumps(self.pos_in_stream), "notes": json.dumps(notes)}
        tensors = {name: w.detach().contiguous().cpu() for name, w in self.weights().items()}
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(save(tensors, header))
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Transformer:
        """Read a model that ``save`` wrote; half-precision weights are widened to float32.

        Raises FileNotFoundError, or ValueError where the file isn't such a model.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"There is no model file at {path}.")
        try:
            with safe_open(path, framework="pt") as file:
                header = file.metadata() or {}
                weights: dict[str, Any] = {n: file.get_tensor(n) for n in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, KeyError) as error:
            raise ValueError(f"{path.name} is not a readable model file ({error}).") from None
        weights = {n: w.float() if w.dtype in _HALF else w for n, w in weights.items()}
        return cls.from_weights({**weights, "pos_in_stream": header.get("pos_in_stream") == "true"})


def _by_head(x: Tensor, W: Tensor, out: Tensor | None = None) -> Tensor:
    """x (..., pos, d_model) through the W (head, d_model, d_head) of each head: (..., head, pos, d_head)."""
    if x.shape[:-2].numel() == 1:
        return torch.matmul(x.unsqueeze(-3), W, out=out)
    # With many texts matmul would copy x for every head and W for every text.
    heads = torch.einsum("...pd,hdk->...hpk", x, W)
    return heads if out is None else out.copy_(heads)


def _new(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Memory to write to, of another tensor's type and place.

    For much of it numpy asks the system for large pages and torch doesn't. A cache takes small ones by
    the ten thousand: with them, 32 MiB of head outputs took 29 ms to compute, with large ones 18.
    """
    size = math.prod(shape) * like.element_size()
    if like.device.type != "cpu" or size < _MUCH:
        return like.new_empty(shape)
    return torch.from_numpy(np.empty(size, dtype=np.uint8)).view(like.dtype).view(shape)


_MUCH = 2**22  # bytes, from which numpy does so
_CACHED = ("scores", "pattern", "q", "k", "v", "z", "head_out")
_HALF = (torch.float16, torch.bfloat16)
