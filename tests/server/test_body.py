"""Bodies of requests: by length, in chunks, broken, too long."""

from __future__ import annotations

import io
from email.message import Message
from http.client import parse_headers

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayplan.server.body import read_body
from bayplan.server.pages import Answer

MOST = 40


def body(sent: bytes, **headers: str) -> bytes | int:
    message = Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    found = read_body(message, io.BufferedReader(io.BytesIO(sent)), MOST)
    return found.status if isinstance(found, Answer) else found


@given(st.lists(st.binary(min_size=1, max_size=9), max_size=4), st.booleans())
def test_chunks_are_put_together(parts: list[bytes], extended: bool) -> None:
    extension = b";name=value" if extended else b""
    sent = b"".join(b"%X%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)
    whole = b"".join(parts)
    assert body(sent + b"0\r\nTrailer: t\r\n\r\n", Transfer_Encoding="chunked") == whole
    assert body(whole, Content_Length=str(len(whole))) == whole


def test_a_request_without_a_body_has_none() -> None:
    assert body(b"") == b""


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 400),
        (b"-1\r\n", 400),
        (b"x\r\n", 400),
        (b"1_0\r\n", 400),
        (b"+5\r\nhello\r\n0\r\n\r\n", 400),
        (b"2\r\nabc\r\n0\r\n\r\n", 400),
        (b"5\r\nab", 400),
        (b"2\r\nab  \r\n0\r\n\r\n", 400),
        (b"2;" + b"x" * 300 + b"\r\nab\r\n0\r\n\r\n", 400),
        (b"0\r\nTrailer: t\r\n", 400),
        (b"0\r\nTrailer: " + b" " * 300 + b"\r\n\r\n", 400),
        (b"29\r\n" + b"a" * 41, 413),
        (b"20\r\n" + b"a" * 32 + b"\r\n9\r\n", 413),
        (b"f" * 300, 413),
    ],
    ids=repr,
)
def test_broken_chunks_are_refused(sent: bytes, status: int) -> None:
    assert body(sent, Transfer_Encoding="chunked") == status


@pytest.mark.parametrize(
    "headers",
    [
        {"Transfer_Encoding": "gzip, chunked"},
        {"Transfer_Encoding": "chunked", "Content_Length": "1"},
        {"Content_Length": "-1"},
        {"Content_Length": "1e3"},
        {"Content_Length": "1" * 21},
    ],
    ids=repr,
)
def test_a_length_that_is_none_is_refused(headers: dict[str, str]) -> None:
    assert body(b"a", **headers) == 400


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 1\r\nContent-Length: 0",
        "Content-Length : 1",
        "Content-Length 1",
        "no header\r\nContent-Length: 1",
    ],
    ids=repr,
)
def test_headers_that_leave_the_length_open_are_refused(headers: str) -> None:
    message = parse_headers(io.BytesIO(f"{headers}\r\n\r\n".encode()))
    found = read_body(message, io.BufferedReader(io.BytesIO(b"a")), MOST)
    assert isinstance(found, Answer)
    assert found.status == 400


def test_a_body_that_is_cut_off_is_refused() -> None:
    assert body(b"abc", Content_Length="4") == 400


@given(st.binary(max_size=60), st.sampled_from(["chunked", "CHUNKED ", "identity"]))
def test_whatever_is_sent_gives_an_answer(sent: bytes, coding: str) -> None:
    found = body(sent, Transfer_Encoding=coding)
    assert found in (400, 413) or (isinstance(found, bytes) and len(found) <= MOST)
