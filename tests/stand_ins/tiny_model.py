"""A language model with random weights, of 300 kB or larger, and the real server that answers with it.

The file is GGUF, version 3, as https://github.com/ggml-org/ggml/blob/master/docs/gguf.md has it: the
metadata of a llama of one layer, a vocabulary of all bytes and a few words, and weights from a
seed. What it writes has no meaning; how llama.cpp tokenizes, batches and streams it is real.
"""

from __future__ import annotations

import argparse
import os
import struct
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HEAD_WIDTH = 16
CONTEXT_TOKENS = 4096
WORDS = ("the", "a", "of", "and", "to", "in")
ALIGNMENT = 32
# Numbers of types in the format's metadata.
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
# Types of tokens.
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def write_model(path: Path, seed: int = 1, width: int = 64, layers: int = 1) -> Path:
    """Write the model, or a larger one whose tokens take longer; return its path."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += ["\N{LOWER ONE EIGHTH BLOCK}" + word for word in WORDS]
    types = [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(WORDS)]
    scores = [0.0] * (len(tokens) - len(WORDS)) + [-1.0] * len(WORDS)
    metadata = [
        _text("general.architecture", "llama"),
        _text("general.name", "tiny-random"),
        _value("llama.context_length", UINT32, "I", CONTEXT_TOKENS),
        _value("llama.embedding_length", UINT32, "I", width),
        _value("llama.block_count", UINT32, "I", layers),
        _value("llama.feed_forward_length", UINT32, "I", 2 * width),
        _value("llama.attention.head_count", UINT32, "I", width // HEAD_WIDTH),
        _value("llama.attention.head_count_kv", UINT32, "I", width // HEAD_WIDTH),
        _value("llama.attention.layer_norm_rms_epsilon", FLOAT32, "f", 1e-5),
        _value("llama.rope.dimension_count", UINT32, "I", HEAD_WIDTH),
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
    tensors = _weights(len(tokens), width, layers, np.random.default_rng(seed))
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


def _weights(
    tokens: int, width: int, layers: int, rng: np.random.Generator
) -> dict[str, NDArray[np.float32]]:
    def drawn(*shape: int) -> NDArray[np.float32]:
        return rng.standard_normal(shape, np.float32) * np.float32(0.05)

    ones = np.ones(width, np.float32)
    weights = {"token_embd": drawn(tokens, width), "output_norm": ones}
    weights["output"] = drawn(tokens, width)
    for layer in range(layers):
        block = {"attn_norm": ones, "ffn_norm": ones}
        block |= {f"attn_{part}": drawn(width, width) for part in ("q", "k", "v", "output")}
        block |= {"ffn_gate": drawn(2 * width, width), "ffn_up": drawn(2 * width, width)}
        block["ffn_down"] = drawn(width, 2 * width)
        weights |= {f"blk.{layer}.{name}": values for name, values in block.items()}
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


def serve(model: Path, slots: int, port: int, *, prompt_cache: bool = True) -> None:
    """Serve a model over HTTP on the loopback until killed; print the address. Port 0 is a free one.

    `prompt_cache`: whether prompts of earlier requests stay in memory, apart from those in a slot.
    """
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.hostnames, params.port = ["127.0.0.1"], port
    params.n_parallel, params.n_ctx = slots, slots * CONTEXT_TOKENS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup, params.endpoint_metrics = False, True
    if not prompt_cache:
        params.cache_ram_mib = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(60)


def main() -> None:
    """Serve a model, which is made if it is not there."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("slots", type=int)
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "0")))
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--no-prompt-cache", action="store_true")
    asked = parser.parse_args()
    if not asked.model.exists():
        write_model(asked.model, width=asked.width, layers=asked.layers)
    serve(asked.model, asked.slots, asked.port, prompt_cache=not asked.no_prompt_cache)


if __name__ == "__main__":
    main()
