"""The text behind the shipped models: Python's own library and documentation, and plain English.

Everything comes from five Debian packages, so that the same bytes can be had on any machine::

    apt-get download libpython3.11-minimal libpython3.11-stdlib python3.11-doc jargon-text sword-text-web
    python -m grader.models.recipes.corpus FOLDER_OF_DEBS OUT

A document is one source file, one page of documentation, one chapter or one stretch of the Jargon
File. Whole documents are held out: a hash of the name decides, so the split does not depend on order.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import struct
import sys
import tarfile
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

PACKAGES = (
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "python3.11-doc",
    "jargon-text",
    "sword-text-web",
)
KINDS = {"code": "code", "docs": "docs", "jargon": "english", "web": "english"}
HELD_OUT = 0.04
D_VOCAB, D_VOCAB_SMALL = 2048, 512

_SKIPPED_CODE = ("test", "idlelib", "lib2to3", "encodings", "pydoc_data", "turtledemo", "ensurepip")
_SKIPPED_DOCS = ("changelog", "distutils", "license", "copyright")
_AUTHOR_LINE = re.compile(r"^\.\. *(section|module|code)author::.*\n", re.M)
# What typists write without it. Non-breaking spaces count as spaces.
FOLDS = {
    "\r\n": "\n", "\f": "", "\t": "    ", "\u00a0": " ",
    "‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "--", "…": "...",
}  # fmt: skip


@dataclass(frozen=True)
class Document:
    source: str
    name: str
    text: str

    @property
    def held_out(self) -> bool:
        digest = hashlib.sha256(f"{self.source}/{self.name}".encode()).digest()
        return int.from_bytes(digest[:4], "big") / 2**32 < HELD_OUT


def unpack_deb(path: Path) -> Iterator[tuple[str, bytes]]:
    """(name, content) of every regular file in a Debian package.

    A package is an ``ar`` archive: headers of 60 bytes, members padded to even length; the files
    are in its member ``data.tar.*``.
    """
    raw = path.read_bytes()
    if not raw.startswith(b"!<arch>\n"):
        raise ValueError(f"{path.name} is not a Debian package.")
    at = 8
    while at < len(raw):
        name, size = raw[at : at + 16].decode().strip(), int(raw[at + 48 : at + 58])
        if name.startswith("data.tar"):
            with tarfile.open(fileobj=io.BytesIO(raw[at + 60 : at + 60 + size])) as tar:
                for member in tar:
                    file = tar.extractfile(member) if member.isfile() else None
                    if file is not None:
                        yield member.name.removeprefix("./"), file.read()
        at += 60 + size + size % 2


def read_sources(folder: Path) -> list[Document]:
    """Every document of the corpus, cleaned, in a fixed order.

    Raises FileNotFoundError naming the packages that ``folder`` lacks and how to get them.
    """
    found = {name: sorted(folder.glob(f"{name}_*.deb")) for name in PACKAGES}
    missing = [name for name, files in found.items() if not files]
    if missing:
        raise FileNotFoundError(
            f"{folder} lacks the Debian packages {', '.join(missing)}. On Debian 12 or in its container:"
            f" `cd {folder} && apt-get download {' '.join(missing)}`."
        )
    documents: list[Document] = []
    for name, read in _READERS.items():
        documents += read(dict(unpack_deb(found[name][-1])))
    kept = [Document(d.source, d.name, clean(d.text)) for d in documents]
    return sorted((d for d in kept if len(d.text) > 200), key=lambda d: (d.source, d.name))


def clean(text: str) -> str:
    """Plain ASCII with ordinary whitespace: what a tokenizer of 2,000 tokens can spend itself on."""
    for old, new in FOLDS.items():
        text = text.replace(old, new)
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    text = re.sub(r"[^\n -~]+", "?", text)
    text = re.sub(r"^[ |+=-]*\+[ |+=-]*\n", "", text, flags=re.M)  # the rules of tables
    text = re.sub(r" +$", "", text, flags=re.M)
    text = re.sub(r"([-=*~+^#_.?\"'])\1{4,}", r"\1\1\1\1", text)
    return re.sub(r"\n{4,}", "\n\n\n", text).strip("\n") + "\n"


def _read_code(files: dict[str, bytes]) -> list[Document]:
    documents = []
    for name, raw in files.items():
        inner = name.partition("python3.11/")[2]
        if not inner.endswith(".py") or any(part in _SKIPPED_CODE for part in inner.split("/")):
            continue
        text = raw.decode("utf-8", "replace")
        if sum(c > "~" for c in text) <= len(text) / 100:
            documents.append(Document("code", inner, text))
    return documents


def _read_docs(files: dict[str, bytes]) -> list[Document]:
    documents = []
    for name, raw in files.items():
        inner = name.partition("_sources/")[2].removesuffix(".rst.txt")
        if inner and name.endswith(".rst.txt") and not any(word in inner for word in _SKIPPED_DOCS):
            documents.append(
                Document("docs", inner, _AUTHOR_LINE.sub("", raw.decode("utf-8", "replace")))
            )
    return documents


def _read_jargon(files: dict[str, bytes]) -> list[Document]:
    """The Jargon File without contents and headings; line breaks inside a paragraph are undone."""
    raw = next(raw for name, raw in files.items() if name.endswith("jargon.txt.gz"))
    text = gzip.decompress(raw).decode("utf-8", "replace").replace("\u00a0", " ")
    text = re.sub(r"^[ ═─]*[═─]{10,}.*\n", "", text, flags=re.M)
    text = re.sub(r" /[^/\n]*[^\x00-\x7f][^/\n]*/,?", "", text)
    start = text.index("Part I. Introduction")
    paragraphs = [
        re.sub(r"\s*\n\s*", " ", part.strip()) for part in re.split(r"\n\s*\n", text[start:])
    ]
    body = [part for part in paragraphs if len(part) > 60 or part.startswith(":")]
    return [
        Document("jargon", f"{i:05d}", "\n\n".join(body[i : i + 20]))
        for i in range(0, len(body), 20)
    ]


def _read_web(files: dict[str, bytes]) -> list[Document]:
    """Chapters of the World English Bible, without notes, titles and references.

    Each testament is a file of zlib blocks; its index (``.bzs``) holds 12 bytes a block: offset,
    packed size, unpacked size. Inside is OSIS XML, one book a block.
    """
    documents: list[Document] = []
    for testament in ("ot", "nt"):
        index = next(raw for name, raw in files.items() if name.endswith(f"{testament}.bzs"))
        blocks = next(raw for name, raw in files.items() if name.endswith(f"{testament}.bzz"))
        for offset, size, _ in struct.iter_unpack("<III", index):
            if size:
                book = zlib.decompress(blocks[offset : offset + size]).decode("utf-8", "replace")
                documents += _chapters(book)
    return documents


def _chapters(book: str) -> Iterator[Document]:
    book = re.sub(r"<(note|title)\b.*?</\1>", " ", book, flags=re.S)
    for chapter in re.split(r"(?=<chapter [^>]*sID=)", book)[1:]:
        name = re.search(r'sID="([^"]+)"', chapter)
        text = re.sub(
            r'<(?:div [^>]*eID=[^>]*type="x-p"|lb|l) ?[^>]*>|<div [^>]*type="x-p"[^>]*>',
            "\n",
            chapter,
        )
        text = re.sub(r"[ \t]+", " ", re.sub(r"<[^>]*>", "", text).replace("¶", ""))
        text = re.sub(r" *\n[ \n]*", "\n", re.sub(r" +([,.;:!?])", r"\1", text))
        if name:
            yield Document("web", name.group(1), text)


_READERS: dict[str, Callable[[dict[str, bytes]], list[Document]]] = {
    "libpython3.11-minimal": _read_code,
    "libpython3.11-stdlib": _read_code,
    "python3.11-doc": _read_docs,
    "jargon-text": _read_jargon,
    "sword-text-web": _read_web,
}


def train_tokenizer(texts: list[str], d_vocab: int) -> Any:
    """A BPE over ASCII whose pieces are easy to read, as a ``tokenizers.Tokenizer``.

    A line break and the indent after it belong together, names keep their underscores, digits stay
    single. Text outside ASCII is folded first, so every one of the ``d_vocab`` ids occurs in the text.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    folds = [normalizers.Replace(old, new) for old, new in FOLDS.items()]
    tokenizer.normalizer = normalizers.Sequence(
        [
            *folds,
            normalizers.NFKD(),
            normalizers.StripAccents(),
            normalizers.Replace(Regex(r"[^\n -~]"), "?"),
        ]
    )
    pieces = Regex(r"\n+ *|'(?:s|t|re|ve|m|ll|d)\b| ?[A-Za-z_]+| ?[0-9]| ?[^\sA-Za-z_0-9]+| +")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(pieces, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=d_vocab, show_progress=False, min_frequency=2)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def build(sources: Path, out: Path) -> dict[str, Any]:
    """Everything made from the text, written into ``out``; returns the data sheet, also written.

    ``tokenizer.json`` and ``tokenizer-small.json`` · ``corpus.safetensors``, the training ids of each
    source · ``sample.safetensors``, the held-out ids of each kind · ``bigrams.npz``, how often each id
    follows each other one in the training text.
    """
    documents = read_sources(sources)
    train = [d for d in documents if not d.held_out]
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer([d.text for d in train], D_VOCAB)
    tokenizer.save(str(out / "tokenizer.json"))
    train_tokenizer([d.text for d in train], D_VOCAB_SMALL).save(str(out / "tokenizer-small.json"))

    def ids(chosen: list[Document]) -> np.ndarray:
        return np.array(tokenizer.encode("\n".join(d.text for d in chosen)).ids, dtype=np.uint16)

    corpus = {s: ids([d for d in train if d.source == s]) for s in KINDS}
    sample = {
        kind: ids([d for d in documents if d.held_out and KINDS[d.source] == kind])
        for kind in dict.fromkeys(KINDS.values())
    }
    save_file(corpus, out / "corpus.safetensors")
    save_file(sample, out / "sample.safetensors")
    counts = np.sum([bigram_counts(tokens) for tokens in corpus.values()], axis=0)
    write_counts(out / "bigrams.npz", counts)
    sheet = _data_sheet(documents, corpus, sample)
    (out / "corpus.json").write_text(json.dumps(sheet, indent=1) + "\n")
    return sheet


def bigram_counts(tokens: np.ndarray) -> np.ndarray:
    """(pos,) ids → (current, next) counts, int64."""
    pairs = tokens[:-1].astype(np.int64) * D_VOCAB + tokens[1:]
    return np.bincount(pairs, minlength=D_VOCAB**2).reshape(D_VOCAB, D_VOCAB)


def write_counts(path: Path, counts: np.ndarray) -> None:
    """Store a sparse count table: gaps between the cells in use and their counts, compressed."""
    cells = np.flatnonzero(counts)
    gaps = np.diff(cells, prepend=0).astype(np.uint32)
    np.savez_compressed(path, gaps=gaps, counts=counts.reshape(-1)[cells].astype(np.uint32))


def _data_sheet(
    documents: list[Document], corpus: dict[str, np.ndarray], sample: dict[str, np.ndarray]
) -> dict[str, Any]:
    def row(source: str) -> dict[str, Any]:
        chosen = [d for d in documents if d.source == source]
        joined = "".join(d.text for d in chosen)
        return {
            "kind": KINDS[source],
            "documents": len(chosen),
            "characters": len(joined),
            "training_tokens": len(corpus[source]),
            "sha256": hashlib.sha256(joined.encode()).hexdigest(),
        }

    return {
        "packages": PACKAGES,
        "d_vocab": D_VOCAB,
        "sources": {source: row(source) for source in KINDS},
        "held_out_tokens": {kind: len(tokens) for kind, tokens in sample.items()},
    }


if __name__ == "__main__":
    print(json.dumps(build(Path(sys.argv[1]), Path(sys.argv[2])), indent=1))
