"""A position in the SQL of a condition: the tokens around it, and errors that quote the SQL."""

from __future__ import annotations

from lakelog.common.errors import InvalidRequestError
from lakelog.filestore.predicate.tokens import Token, TokenKind, tokens_of

_QUOTED_MAX = 200
_FORMS = "=, <>, <, <=, >, >=, <=>, IN, BETWEEN, LIKE, IS NULL, AND, OR and NOT over columns and literals"


class Cursor:
    """Goes through the tokens of a text once. `next` is the next token, `end` is where the token before it ends."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.go_to(0)

    def go_to(self, start: int) -> None:
        """Continue from a position between tokens."""
        self._tokens = tokens_of(self.text, start)
        self.next = next(self._tokens)
        self.end = start

    def take(self) -> Token:
        """Take the next token; the one after it becomes the next."""
        token = self.next
        self.end, self.next = token.end, next(self._tokens)
        return token

    def accepts(self, *written: str) -> bool:
        """Take the next token if it is one of these words or signs."""
        if self.next.word in written or self.is_sign(*written):
            self.take()
            return True
        return False

    def is_sign(self, *written: str) -> bool:
        """Whether the next token is one of these signs."""
        return self.next.kind is TokenKind.SIGN and self.next.text in written

    def expect(self, written: str) -> None:
        """Take this word or sign. Raises InvalidRequestError."""
        if not self.accepts(written):
            raise self.no_condition(f"{written} expected, found {self.rest(self.next)}")

    def rest(self, token: Token) -> str:
        """The text from a token on, for errors."""
        return cut(self.text[token.start :]) if token.text else "its end"

    def closing(self, opening: Token) -> int:
        """Where the parenthesis that `opening` begins ends; the end of the text if it is not closed."""
        depth = 0
        for token in tokens_of(self.text, opening.start):
            if token.kind is TokenKind.SIGN:
                depth += (token.text == "(") - (token.text == ")")
            if token.kind is TokenKind.END or not depth:
                return token.end
        raise AssertionError("tokens never end")

    @property
    def quoted(self) -> str:
        """The whole text, for errors."""
        return cut(repr(self.text))

    def no_condition(self, why: str) -> InvalidRequestError:
        """The error for a text that is not a condition."""
        return InvalidRequestError(f"the filter {self.quoted} is not a SQL condition: {why}; use {_FORMS}")

    def refused(self, start: int, end: int) -> InvalidRequestError:
        """The error for a part of the text that is SQL, but not supported."""
        return self.unknown(self.text[start:end])

    def unknown(self, what: str) -> InvalidRequestError:
        """As `refused`, for an unknown part `what`."""
        return InvalidRequestError(
            f"the filter {self.quoted} holds {cut(repr(what))}, which filters cannot hold; use {_FORMS}"
        )


def cut(text: str) -> str:
    """A text as errors quote it: a long text is cut."""
    return text if len(text) <= _QUOTED_MAX else f"{text[:_QUOTED_MAX]}..."
