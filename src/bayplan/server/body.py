"""Body: what stands in a request after the headers, by length or in chunks (RFC 9112).

kubectl and proxies send in chunks what they have not read to the end.
"""

from __future__ import annotations

from email.message import Message
from io import BufferedIOBase

from bayplan.server.pages import Answer, text

MOST_DIGITS = 20
"""Of a length."""
LONGEST_LINE = 256
"""Of what stands between chunks."""


def read_body(headers: Message, stream: BufferedIOBase, most: int) -> bytes | Answer:
    """The body, or what to answer where it has more than ``most`` bytes or cannot be read."""
    coding, length = headers.get("Transfer-Encoding"), headers.get("Content-Length")
    if coding is None:
        return _by_length(length or "0", stream, most)
    if coding.strip().lower() != "chunked" or length is not None:
        return text(400, "Transfer-Encoding is chunked, without Content-Length, or is not there")
    return _chunks(stream, most)


def _by_length(length: str, stream: BufferedIOBase, most: int) -> bytes | Answer:
    if not (length.isascii() and length.isdecimal()) or len(length) > MOST_DIGITS:
        return text(400, "Content-Length is no length")
    return stream.read(int(length)) if int(length) <= most else _too_long(most)


def _chunks(stream: BufferedIOBase, most: int) -> bytes | Answer:
    body = bytearray()
    while True:
        size, _, _ = stream.readline(LONGEST_LINE).partition(b";")
        try:
            count = int(size.strip(), 16) if size.strip().isalnum() else -1
        except ValueError:
            count = -1
        if count < 0:
            return text(400, "the chunks of the request are broken")
        if count == 0:
            while stream.readline(LONGEST_LINE).strip():
                pass  # trailers
            return bytes(body)
        if len(body) + count > most:
            return _too_long(most)
        body += stream.read(count)
        if stream.readline(LONGEST_LINE).strip():
            return text(400, "the chunks of the request are broken")


def _too_long(most: int) -> Answer:
    return text(413, f"a request has at most {most} bytes")
