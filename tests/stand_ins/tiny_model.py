"""A language model of 300 kB with random weights, and the real server that answers with it.

The file is GGUF, version 3, as https://github.com/ggml-org/ggml/blob/master/docs/gguf.md has it: the
metadata of a llama of one layer, a vocabulary of all bytes and a few words, and weights from a
seed. What it writes has no meaning; how llama.cpp tokenizes, batches and streams it is real.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WIDTH, HEADS, HIDDEN = 64, 4, 128
CONTEXT_TOKENS = 4096
WORDS = ("the", "a", "of", "and", "to", "in")
ALIGNMENT = 32
# Numbers of types in the format's metadata.
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
# Types of tokens.
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def write_model(path: Path, seed: int = 1) -> Path:
    """Write the model; return its path."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += ["\N{LOWER ONE EIGHTH BLOCK}" + word for word in WORDS]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(WORDS)]
    scores = [0.0] * (len(tokens) - len(WORDS)) + [-1.0] * len(WORDS)
    metadata = [
        _text("general.architecture", "llama"),
        _text("general.name", "tiny-random"),
        _value("llama.context_length", UINT32, "I", CONTEXT_TOKENS),
        _value("llama.embedding_length", UINT32, "I", WIDTH),
        _value("llama.block_count", UINT32, "I", 1),
        _value("llama.feed_forward_length", UINT32, "I", HIDDEN),
        _value("llama.attention.head_count", UINT32, "I", HEADS),
        _value("llama.attention.head_count_kv", UINT32, "I", HEADS),
        _value("llama.attention.layer_norm_rms_epsilon", FLOAT32, "f", 1e-5),
        _value("llama.rope.dimension_count", UINT32, "I", WIDTH // HEADS),
        _text("tokenizer.ggml.model", "llama"),
        _array("tokenizer.ggml.tokens", STRING, map(_string, tokens), len(tokens)),
        _array("tokenizer.ggml.scores", FLOAT32, _packed("f", scores), len(tokens)),
        _array("tokenizer.ggml.token_type", INT32, _packed("i", types), len(tokens)),
        _value("tokenizer.ggml.bos_token_id", UINT32, "I", 1),
        _value("tokenizer.ggml.eos_token_id", UINT32, "I", 2),
        _value("tokenizer.ggml.unknown_token_id", UINT32, "I", 0),
        _value("tokenizer.ggml.add_bos_token", BOOL, "?", True),
        _text(
            "tokenizer.chat_template",
            "{% for message in messages %}{{ message['content'] }}\n{% endfor %}",
        ),
    ]
    tensors = _weights(len(tokens), np.random.default_rng(seed))
    infos, place = [], 0
    for name, values in tensors.items():
        # The format names the fastest dimension first; 0 is float32.
        shape = struct.pack(f"<{values.ndim}Q", *reversed(values.shape))
        infos.append(_string(name) + struct.pack("<I", values.ndim) + shape)
        infos[-1] += struct.pack("<IQ", 0, place)
        place += _padded(values.nbytes)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(metadata) + b"".join(infos)
    body = b"".join(
        values.tobytes().ljust(_padded(values.nbytes), b"\0") for values in tensors.values()
    )
    path.write_bytes(head.ljust(_padded(len(head)), b"\0") + body)
    return path


def _weights(tokens: int, rng: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    def drawn(*shape: int) -> NDArray[np.float32]:
        return (rng.standard_normal(shape) * 0.05).astype(np.float32)

    ones = np.ones(WIDTH, np.float32)
    weights = {"token_embd": drawn(tokens, WIDTH), "output_norm": ones}
    weights |= {"output": drawn(tokens, WIDTH), "blk.0.attn_norm": ones, "blk.0.ffn_norm": ones}
    for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
        weights[f"blk.0.{part}"] = drawn(WIDTH, WIDTH)
    weights |= {"blk.0.ffn_gate": drawn(HIDDEN, WIDTH), "blk.0.ffn_up": drawn(HIDDEN, WIDTH)}
    weights["blk.0.ffn_down"] = drawn(WIDTH, HIDDEN)
    return {f"{name}.weight": values for name, values in weights.items()}


def _padded(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _packed(code: str, values: Iterable[float]) -> Iterable[bytes]:
    return (struct.pack(f"<{code}", value) for value in values)


def _value(key: str, kind: int, code: str, value: float) -> bytes:
    return _string(key) + struct.pack(f"<I{code}", kind, value)


def _text(key: str, text: str) -> bytes:
    return _string(key) + struct.pack("<I", STRING) + _string(text)


def _array(key: str, kind: int, items: Iterable[bytes], count: int) -> bytes:
    return _string(key) + struct.pack("<IIQ", ARRAY, kind, count) + b"".join(items)


def serve(model: Path, slots: int) -> None:
    """Serve a model over HTTP on the loopback until killed; print the address. The port is that of
    the environment variable PORT, or a free one."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.hostnames, params.port = ["127.0.0.1"], int(os.environ.get("PORT", "0"))
    params.n_parallel, params.n_ctx = slots, slots * CONTEXT_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup, params.endpoint_metrics = False, True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(60)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]))
