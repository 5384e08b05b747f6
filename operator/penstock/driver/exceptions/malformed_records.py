"""Why from_json, with mode FAILFAST, cannot read a record: the field and the types, no value.

Spark's messages quote the record, and so do most parameters of its conditions (4.2). The types come
from the query's own schema, and the token is one of Jackson's few. A field's name may be the key of
a map in the record, so only names are shown that the schema has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from penstock.driver.exceptions.chain import ExceptionInfo

MALFORMED = "MALFORMED_RECORD_IN_PARSING"
_TOKENS = {
    "VALUE_STRING": "text in quotes",
    "VALUE_NUMBER_INT": "a whole number",
    "VALUE_NUMBER_FLOAT": "a number with a fraction or an exponent",
    "VALUE_TRUE": "true or false",
    "VALUE_FALSE": "true or false",
    "START_OBJECT": "an object",
    "START_ARRAY": "an array",
}
# The classes of Jackson's parser, nearest first.
_JACKSON = {
    "com.fasterxml.jackson.core.exc.InputCoercionException": (
        "a number is too large for the type that the schema says"
    ),
    "com.fasterxml.jackson.core.JsonParseException": "it is not JSON",
    "com.fasterxml.jackson.core.JsonProcessingException": "it is not JSON",
}
_NOT_AN_OBJECT = "it is JSON, and not what the schema says as a whole"


class SchemaField(NamedTuple):
    """A field of a schema that the query reads records with."""

    name: str
    type: str
    """As Spark's SQL writes it, such as BIGINT."""


def why_malformed(
    chain: Sequence[ExceptionInfo], fields: Collection[SchemaField] = ()
) -> str | None:
    """What is wrong with the record of a chain; None if it is not one that could not be parsed.

    >>> given = {"fieldName": "'amount'", "dataType": '"BIGINT"', "jsonType": "VALUE_STRING"}
    >>> chain = [
    ...     ExceptionInfo(("SparkException",), "", MALFORMED),
    ...     ExceptionInfo(("SparkException",), "", "CANNOT_PARSE_JSON_FIELD", parameters=given),
    ... ]
    >>> why_malformed(chain, [SchemaField("amount", "BIGINT")])
    'the field amount is text in quotes, and the schema says BIGINT'
    >>> why_malformed(chain, [SchemaField("another", "BIGINT")])
    'a value is text in quotes, and the schema says BIGINT'
    """
    if not any((info.condition or "").startswith(MALFORMED) for info in chain):
        return None
    for info in reversed(chain):
        if why := _why(info, fields):
            return why
    return "it is not what the schema says"


def _why(info: ExceptionInfo, fields: Collection[SchemaField]) -> str | None:
    given = info.parameters
    condition = (info.condition or "").rpartition(".")[2]
    name = given.get("fieldName", "").strip("'`")
    field = f"the field {name}" if name in {field.name for field in fields} else "a value"
    match condition:
        case "CANNOT_PARSE_JSON_FIELD":
            token = _TOKENS.get(given.get("jsonType", ""), "something else")
            return f"{field} is {token}, and the schema says {_type(given.get('dataType', ''))}"
        case "CANNOT_PARSE_STRING_AS_DATATYPE":
            expected = _type(given.get("targetType", "").removesuffix("Type"))
            return f"{field} is text in quotes, and the schema says {expected}"
        case "INVALID_JSON_ROOT_FIELD" | "CANNOT_PARSE_JSON_ARRAYS_AS_STRUCTS":
            return _NOT_AN_OBJECT
    if info.condition == "CAST_INVALID_INPUT":
        expected = _type(given.get("targetType", ""))
        return f"{_of_type(expected, fields)} is text that is no {expected}"
    if (info.condition or "").startswith("NUMERIC_VALUE_OUT_OF_RANGE"):
        expected = f"DECIMAL({given.get('precision', '')},{given.get('scale', '')})"
        return f"{_of_type(expected, fields)} is a number that is too large for {expected}"
    return next((_JACKSON[name] for name in info.classes if name in _JACKSON), None)


def _of_type(expected: str, fields: Collection[SchemaField]) -> str:
    """The field of this type, if there is one alone; Spark does not name it."""
    names = sorted({field.name for field in fields if field.type == expected})
    if len(names) == 1:
        return f"the field {names[0]}"
    return f"one of the fields {', '.join(names)}" if names else "a value"


def _type(written: str) -> str:
    """The name of a type, without the fields of a struct."""
    return written.strip('"').partition("<")[0].upper()
