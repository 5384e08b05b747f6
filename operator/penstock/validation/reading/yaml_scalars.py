"""The value of a YAML scalar as kubectl and the API server read it (sigs.k8s.io/yaml, YAML 1.1).

PyYAML reads some of them otherwise: dates as dates, `1:30` as 90, `y` as a string. The rules are
those of goyaml.v2/resolve.go; integration/validation/test_verdicts.py compares them with kubectl.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from decimal import Decimal

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE"), True),
    **dict.fromkeys(("on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF"), math.nan),
    **dict.fromkeys(("+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"), math.nan),
}  # fmt: skip
# With the prefixes of Go's ParseInt: 0b11, 0o17, 017, 0x1F.
_INTEGER = re.compile(r"([-+]?)(?:0[bB]([01]+)|0[oO]?([0-7]+)|0[xX]([0-9a-fA-F]+)|(0|[1-9][0-9]*))")
_BASES = (2, 8, 16, 10)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_LONGEST_NUMBER = 400  # no longer number has a value in 64 bits
_EXACT_INTEGERS = range(-(2**63), 2**64)
# Go writes a float below this as digits, so that JSON readers take it for an integer.
_LONGEST_PLAIN_FLOAT = 1e21

STRING, BINARY, NULL = (f"tag:yaml.org,2002:{name}" for name in ("str", "binary", "null"))
_TYPES: dict[str, tuple[type, ...]] = {
    "tag:yaml.org,2002:int": (int,),
    "tag:yaml.org,2002:float": (int, float),
    "tag:yaml.org,2002:bool": (bool,),
    NULL: (type(None),),
}


def resolve(text: str, tag: str | None, plain: bool) -> Scalar:
    """What a scalar is for Go; ValueError if its tag contradicts it or JSON has no such number."""
    if tag == BINARY:
        return _binary(text)
    expected = _TYPES.get(tag or "")
    if tag == STRING or (expected is None and (tag is not None or not plain)):
        return text  # a quoted text, or a tag that kubectl does not know and ignores
    value = _plain(text)
    if isinstance(value, float) and math.isnan(value):
        raise ValueError(f"{text} is not a number that JSON has")
    if expected is not None and (
        not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected)
    ):
        raise ValueError(f"{text!r} does not have the type of its tag !!{str(tag).split(':')[-1]}")
    return value


def value(scalar: Scalar) -> Scalar:
    """A scalar as a value in JSON, which Go writes without a fraction where there is none."""
    if isinstance(scalar, float) and scalar.is_integer() and abs(scalar) < _LONGEST_PLAIN_FLOAT:
        return int(scalar)
    return scalar


def key(scalar: Scalar) -> str:
    """A scalar as a key of a map, which kubectl turns into a string; ValueError if it cannot."""
    if scalar is None:
        raise ValueError("a key cannot be null: put it in quotes")
    if isinstance(scalar, bool):
        return "true" if scalar else "false"
    if isinstance(scalar, int) and scalar >= 2**63:
        raise ValueError("a key cannot be so large a number: put it in quotes")
    return _shortest(scalar) if isinstance(scalar, float) else str(scalar)


def _shortest(number: float) -> str:
    """As Go's FormatFloat(number, 'g', -1, 32)."""
    exact = struct.pack("f", number)
    (single,) = struct.unpack("f", exact)
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    texts = (f"{single:.{digits}e}" for digits in range(17))
    text = next(each for each in texts if struct.pack("f", float(each)) == exact)
    plain = -4 <= int(text.partition("e")[2]) < 6
    return f"{Decimal(text):f}" if plain else text


def _plain(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    found = _INTEGER.fullmatch(digits)
    if found is not None:
        group = found.lastindex or 0
        value = int(found[1] + found[group], _BASES[group - 2])
        if value in _EXACT_INTEGERS:
            return value
    return float(digits) if _FLOAT.fullmatch(digits) and _finite(digits) else text


def _finite(digits: str) -> bool:
    return math.isfinite(float(digits))


def _binary(text: str) -> str:
    try:
        return base64.b64decode(text, validate=False).decode(errors="replace")
    except (binascii.Error, ValueError) as error:
        raise ValueError("!!binary takes base64") from error
