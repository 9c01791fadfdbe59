"""Body: what stands in a request after the headers, by length or in chunks (RFC 9112).

kubectl and proxies send in chunks what they have not read to the end. The next request begins where
the body ends, so whatever leaves that open is refused, and the connection ends with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from email.message import Message
from io import BufferedIOBase

from bayplan.server.pages import Answer, text

MOST_DIGITS = 20
"""Of a length."""
LONGEST_LINE = 256
"""Of what stands between chunks."""
LINE_ENDS = (b"\r\n", b"\n")


def read_body(headers: Message, stream: BufferedIOBase, most: int) -> bytes | Answer:
    """The body, or what to answer where it has more than ``most`` bytes or cannot be read."""
    coding, lengths = headers.get("Transfer-Encoding"), headers.get_all("Content-Length", ["0"])
    if headers.defects or headers.get_payload():
        return text(400, "the headers of the request are broken")
    if coding is None:
        return _by_length(lengths, stream, most)
    if coding.strip().lower() != "chunked" or "Content-Length" in headers:
        return text(400, "Transfer-Encoding is chunked, without Content-Length, or is not there")
    return _chunks(stream, most)


def _by_length(lengths: Sequence[str], stream: BufferedIOBase, most: int) -> bytes | Answer:
    length = lengths[0]
    digits = length.isascii() and length.isdecimal() and len(length) <= MOST_DIGITS
    if not digits or len(lengths) > 1:
        return text(400, "Content-Length is no length")
    if int(length) > most:
        return _too_long(most)
    body = stream.read(int(length))
    return body if len(body) == int(length) else text(400, "the request ends before its body")


def _chunks(stream: BufferedIOBase, most: int) -> bytes | Answer:
    body = bytearray()
    while True:
        line = stream.readline(LONGEST_LINE)
        size = line.partition(b";")[0].strip()
        try:
            count = int(size, 16) if size.isalnum() else -1
        except ValueError:
            count = -1
        if len(body) + count > most:
            return _too_long(most)
        if count < 0 or not line.endswith(b"\n"):
            return _broken()
        if count == 0:
            return bytes(body) if _trailers_end(stream) else _broken()
        body += stream.read(count)
        if stream.readline(LONGEST_LINE) not in LINE_ENDS:
            return _broken()


def _trailers_end(stream: BufferedIOBase) -> bool:
    while (line := stream.readline(LONGEST_LINE)) not in LINE_ENDS:
        if not line.endswith(b"\n"):
            return False
    return True


def _broken() -> Answer:
    return text(400, "the chunks of the request are broken")


def _too_long(most: int) -> Answer:
    return text(413, f"a request has at most {most} bytes")
