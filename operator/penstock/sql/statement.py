"""The text of a query: its tokens within bounds, and its syntax tree in sqlglot's Spark dialect."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

MAX_TOKENS = 20_000
"""In a query and the functions that it calls; 600 columns cut out of JSON are 11,000 tokens."""
MAX_NESTING = 200
"""Of brackets and CASE. Spark's own parser overflows its stack at a few hundred to a thousand."""

_OPENING = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSING = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
_BEHIND_A_COLUMN = (TokenType.FROM, TokenType.COMMA, TokenType.ALIAS)
_BEFORE_A_RELATION = (TokenType.FROM, TokenType.JOIN)
_INTERVAL_UNITS = (
    "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR",
)  # fmt: skip
# Functions that SQL calls without parentheses. A column of the same name hides them.
_WITHOUT_PARENTHESES = ("current_date", "current_timestamp")


class TextTooLarge(Exception):
    """A text beyond the bounds; the message is whole."""


@dataclass(frozen=True)
class Place:
    """A place in a text, from 1."""

    line: int
    column: int

    def __str__(self) -> str:
        return f", line {self.line}, column {self.column}"


class UnreadableText(Exception):
    """A text that the parser cannot read; the message says why."""

    def __init__(self, message: str, place: Place | None = None) -> None:
        super().__init__(message)
        self.place = place


@dataclass(frozen=True)
class SqlText:
    """A text of SQL and its path in the resource."""

    path: str
    text: str
    prefix_length: int = 0
    """How many characters of the text the user did not write."""

    def column(self, line: int, column: int) -> int:
        """A column of the text as a column of what the user wrote."""
        return column - (self.prefix_length if line == 1 else 0)


@dataclass(frozen=True)
class WatermarkClause:
    """`WATERMARK column DELAY OF INTERVAL ...` behind a FROM item, which sqlglot does not know."""

    first: int
    """The place of its first token, and of the one behind it."""
    end: int


def find_watermarks(tokens: list[Token]) -> list[WatermarkClause]:
    """The clauses that name a column; not those with an expression, which add a column."""
    words = [token.text.upper() for token in tokens]
    clauses = []
    for start, word in enumerate(words):
        if word != "WATERMARK" or words[start + 2 : start + 5] != ["DELAY", "OF", "INTERVAL"]:
            continue
        end = start + 5
        while end + 1 < len(words) and (
            tokens[end].token_type in (TokenType.NUMBER, TokenType.STRING)
            and words[end + 1].removesuffix("S") in _INTERVAL_UNITS
        ):
            end += 2
        if end > start + 5:
            clauses.append(WatermarkClause(start, end))
    return clauses


def find_trailing_comma(tokens: list[Token]) -> Token | None:
    """The comma of `SELECT key, FROM source`, which sqlglot takes; a column may be named from."""
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        is_between = before.token_type is TokenType.COMMA and token.token_type is TokenType.FROM
        if is_between and after.token_type not in _BEHIND_A_COLUMN:
            return before
    last = tokens[-1] if tokens else None
    return last if last is not None and last.token_type is TokenType.COMMA else None


def tokenize(text: SqlText, max_tokens: int = MAX_TOKENS) -> list[Token]:
    """The tokens of a text. Raises UnreadableText and TextTooLarge."""
    try:
        tokens = list(Spark().tokenize(text.text))
    except SqlglotError as error:
        if isinstance(error.__cause__, MemoryError):  # sqlglot wraps whatever its tokenizer raises
            raise error.__cause__ from error
        raise UnreadableText(_first_line(error)) from error
    if len(tokens) > max_tokens:
        raise TextTooLarge(
            f"{text.path}: a query with the functions that it calls may have {MAX_TOKENS:,} "
            f"tokens, and this is beyond that with {len(tokens):,}: make it shorter"
        )
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > MAX_NESTING:
            raise TextTooLarge(
                f"{text.path}, line {token.line}: brackets or CASE nest more than {MAX_NESTING} "
                "deep: make it simpler"
            )
    return tokens


def parse(text: SqlText, tokens: list[Token]) -> exp.Query | exp.Values:
    """The syntax tree of a query. Raises UnreadableText."""
    try:
        dialect = Spark()
        parser = dialect.parser(error_level=ErrorLevel.IMMEDIATE)
        (root,) = [each for each in parser.parse(_adapt(tokens), text.text) if each is not None]
    except ParseError as error:
        raise _unexpected(error, text) from error
    except RecursionError as error:
        raise UnreadableText("it nests too deep") from error
    except (MemoryError, SystemError) as error:  # Python 3.11 without memory raises either (seen)
        raise MemoryError from error
    except Exception as error:  # sqlglot raises more than its own errors
        raise UnreadableText(type(error).__name__) from error
    if not isinstance(root, exp.Query | exp.Values):
        raise UnreadableText("it does not look like a query")
    return root


def _adapt(tokens: list[Token]) -> list[Token]:
    """The tokens, changed where sqlglot reads Spark's SQL differently. Positions stay."""
    adapted: list[Token] = []
    skipped = {i for clause in find_watermarks(tokens) for i in range(clause.first, clause.end)}
    for i, token in enumerate(tokens):
        if i in skipped:
            continue
        after = tokens[i + 1] if i + 1 < len(tokens) else None
        is_call = after is not None and after.token_type is TokenType.L_PAREN
        kind = token.token_type
        if kind is TokenType.WINDOW and is_call:
            kind = TokenType.VAR  # GROUP BY window(...) is not the WINDOW clause
        elif token.text.lower() in _WITHOUT_PARENTHESES and not is_call:
            kind = kind if kind in (TokenType.STRING, TokenType.IDENTIFIER) else TokenType.VAR
        elif _is_stream_keyword(tokens, i):
            continue
        adapted.append(_with_type(token, kind))
    if adapted and adapted[0].text.upper() == "TABLE":
        start = [_with_type(each, each.token_type) for each in Spark().tokenize("SELECT * FROM")]
        adapted[:1] = start
    return adapted


def _is_stream_keyword(tokens: list[Token], i: int) -> bool:
    """Whether a token is the STREAM of FROM STREAM name or FROM STREAM(name)."""
    if tokens[i].text.upper() != "STREAM" or not 0 < i < len(tokens) - 1:
        return False
    following = tokens[i + 1]
    named = following.token_type in (TokenType.VAR, TokenType.IDENTIFIER, TokenType.L_PAREN)
    return tokens[i - 1].token_type in _BEFORE_A_RELATION and named


def _with_type(token: Token, kind: TokenType) -> Token:
    if kind is token.token_type:
        return token
    return Token(
        kind, token.text, token.line, token.col, token.start, token.end, list(token.comments)
    )


def _unexpected(error: ParseError, text: SqlText) -> UnreadableText:
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    if line is None or column is None:
        return UnreadableText(_first_line(error))
    word = first.get("highlight") or ""
    place = Place(line, text.column(line, column - max(len(word) - 1, 0)))
    return UnreadableText(f"the parser does not expect {word!r} here", place)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
