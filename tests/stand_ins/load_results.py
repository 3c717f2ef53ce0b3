"""Results of loads with chosen response times, as the engine writes them."""

from __future__ import annotations

import base64
import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from benchwright.features.load.types import EngineResult

GOLDEN = Path(__file__).parents[1] / "golden" / "load" / "result.json"
MS = 1_000_000


def _leb128(number: int) -> bytes:
    """Return a number as zig-zag LEB128."""
    value = (number << 1) ^ (number >> 63)
    found = bytearray()
    while value > 0x7F:
        found.append((value & 0x7F) | 0x80)
        value >>= 7
    return bytes([*found, value])


def encoded(counts: dict[int, int]) -> str:
    """Return a histogram of three digits with these counts of times [ns], as the engine writes it."""
    places: dict[int, int] = {}
    for value, count in counts.items():
        doublings = max(0, value.bit_length() - 11)
        place = (value >> doublings) + (doublings << 10)
        places[place] = places.get(place, 0) + count
    payload, at = b"", 0
    for place, count in sorted(places.items()):
        if place > at:
            payload += _leb128(at - place)
        payload += _leb128(count)
        at = place + 1
    head = struct.pack(">iiiiqqd", 0x1C849313, len(payload), 0, 3, 1, 2**62, 1.0)
    return base64.b64encode(head + payload).decode()


def times(counts: dict[int, int]) -> dict[str, Any]:
    """Return the distribution of times with these counts [ns]."""
    values = np.repeat(list(counts), list(counts.values())).astype(float)
    mean, sd = (float(values.mean()), float(values.std())) if values.size else (None,) * 2
    return {"count": values.size, "mean": mean, "sd": sd, "hdr": encoded(counts)}


def loaded(
    response: dict[int, int],
    service: dict[int, int] | None = None,
    *,
    target: dict[int, int] | None = None,
    errors: int = 0,
    labels: dict[str, dict[int, int]] | None = None,
    **counts: int,
) -> EngineResult:
    """Return the result of a load with these response and service times, and the target's part
    [ns]; that is the service time if not given."""
    found = msgspec.json.decode(GOLDEN.read_bytes())

    def kind(
        response: dict[int, int], service: dict[int, int], target: dict[int, int], errors: int
    ) -> Any:
        return {
            **found["kinds"]["all"],
            "operations": sum(response.values()) + errors,
            "errors": {"HTTP 500": errors} if errors else {},
            "response_ns": times(response),
            "service_ns": times(service),
            "target_response_ns": times(target),
        }

    answered = sum(response.values())
    zero = dict.fromkeys(found["counts"], 0)
    whole = answered + errors + sum(counts.get(name, 0) for name in ("waiting", "skipped"))
    found["counts"] = {**zero, "intended": whole, "errors": errors, **counts}
    service = service or response
    found["kinds"] = {"all": kind(response, service, target or service, errors)}
    found["labels"] = {name: kind(one, one, one, 0) for name, one in (labels or {}).items()}
    found["intervals"] = []
    found["lateness_ns"] = {"count": answered, "p99": 31 * MS, "max": 40 * MS}
    return msgspec.convert(found, EngineResult)
