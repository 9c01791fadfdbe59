"""URLs: `url()` and the getters of its parts, parsed and escaped as in Go's net/url."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from bayplan.cel.errors import EvaluationError
from bayplan.cel.functions.addresses import parse_address
from bayplan.cel.functions.registry import STRING, exactly, function, method
from bayplan.cel.golang.quoting import quote, utf8
from bayplan.cel.values import Extension, Map, Value

_WORD: Final = string.ascii_letters + string.digits + "-_.~"
# Characters that need no escape in each part.
_PATH: Final = frozenset(_WORD + "$&+,/:;=@")
_HOST: Final = frozenset(_WORD + "!$&'()*+,;=:[]<>\"")
_USER: Final = frozenset(_WORD + "$&+,;=")
_FRAGMENT: Final = frozenset(_WORD + "$&+,/:;=?@!()*")
_RAW_PATH: Final = _PATH | frozenset("!'()*[]%")
_USER_INFO: Final = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*")
_PORT: Final = re.compile(r"(?::[0-9]*)?", re.ASCII)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+\-.]*):", re.ASCII)
_CHARACTER: Final = re.compile(r"%([0-9a-fA-F]{2})?|[^%]", re.DOTALL)


@dataclass(frozen=True)
class URL(Extension):
    """A URL, divided into the parts needed by getters and text."""

    type_name: ClassVar[str] = "kubernetes.URL"
    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    host: str = ""
    omit_host: bool = False
    path: str = ""
    raw_path: str = ""
    query: str = ""
    force_query: bool = False
    fragment: str = ""

    def equals(self, other: Any) -> bool:
        """Whether both have the same text."""
        return self.text() == str(other.text())

    def text(self) -> str:
        """url.URL.String()."""
        text = f"{self.scheme}:" if self.scheme else ""
        tail = f"?{self.query}" if self.query or self.force_query else ""
        tail += f"#{self.fragment}" if self.fragment else ""
        if self.opaque:
            return text + self.opaque + tail
        has_authority = bool(self.scheme or self.host or self.user is not None)
        omitted = self.omit_host and not self.host and self.user is None
        if has_authority and not omitted:
            text += "//" if self.host or self.path or self.user is not None else ""
            text += f"{self.user}@" if self.user is not None else ""
            text += _escape(self.host, _HOST)
        return text + self.escaped_path() + tail

    def escaped_path(self) -> str:
        """url.URL.EscapedPath()."""
        if self.raw_path and set(self.raw_path) <= _RAW_PATH:
            return self.raw_path
        return "*" if self.path == "*" else _escape(self.path, _PATH)

    def host_and_port(self) -> tuple[str, str]:
        """The host without brackets, and the port."""
        host, colon, port = self.host.rpartition(":")
        if not colon or not _PORT.fullmatch(f":{port}"):
            host, port = self.host, ""
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        return host, port


def _escape(text: str, allowed: frozenset[str]) -> str:
    return "".join(
        char if char in allowed else "".join(f"%{byte:02X}" for byte in utf8(char)) for char in text
    )


def _check_escape(shown: str, digits: str | None, host: bool, zone: bool) -> None:
    bad = digits is None
    if digits and host:
        bad = digits[0] < "8" and digits != "25"
    if digits and zone:
        bad = digits not in ("25", "20") and chr(int(digits, 16)) not in _HOST
    if bad:
        raise EvaluationError(f"invalid URL escape {quote(shown)}")


def _unescape(text: str, host: bool = False, zone: bool = False, plus: bool = False) -> str:
    for match in _CHARACTER.finditer(text):
        if match[0][0] == "%":
            _check_escape(text[match.start() : match.start() + 3], match[1], host, zone)
        elif (host or zone) and match[0] < "\x80" and match[0] not in _HOST:
            raise EvaluationError(f"invalid character {quote(match[0])} in host name")
    if plus:
        text = text.replace("+", " ")
    if "%" not in text:
        return text
    parts = re.split(rb"%([0-9a-fA-F]{2})", utf8(text))
    parts[1::2] = [bytes([int(part, 16)]) for part in parts[1::2]]
    return b"".join(parts).decode(errors="surrogateescape")


def parse(text: str) -> URL:
    """url.ParseRequestURI and then url.Parse, of `text`.

    Raises:
        EvaluationError: with Go's text, when it is no URL.
    """
    try:
        _parse(text, request=True)
    except EvaluationError as reason:
        raise EvaluationError(f"parse {quote(text)}: {reason}") from None
    base, _, fragment = text.partition("#")
    try:
        result = _parse(base, request=False)
    except EvaluationError as reason:
        raise EvaluationError(f"parse {quote(base)}: {reason}") from None
    if not fragment:
        return result
    try:
        plain = _unescape(fragment)
    except EvaluationError as reason:
        raise EvaluationError(f"parse {quote(text)}: {reason}") from None
    escaped = fragment if set(fragment) <= _FRAGMENT | {"%", "'"} else _escape(plain, _FRAGMENT)
    return URL(**{**result.__dict__, "fragment": escaped})


def _parse(text: str, request: bool) -> URL:
    if any(char < " " or char == "\x7f" for char in text):
        raise EvaluationError("net/url: invalid control character in URL")
    if not text:
        raise EvaluationError("empty url")
    if text == "*":
        return URL(path="*")
    if text[0] == ":":
        raise EvaluationError("missing protocol scheme")
    match = _SCHEME.match(text)
    scheme, rest = (match[1].lower(), text[match.end() :]) if match else ("", text)
    force_query = rest.endswith("?") and rest.count("?") == 1
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise EvaluationError("invalid URI for request")
        return URL(scheme, opaque=rest, query=query, force_query=force_query)
    user, host = None, ""
    # Without a scheme, only what is not a request can have a host.
    relative = not request and not rest.startswith("///")
    has_authority = (scheme != "" or relative) and rest.startswith("//")
    if has_authority:
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(scheme, authority)
        rest = slash + path
    path = _unescape(rest)
    return URL(
        scheme,
        user=user,
        host=host,
        omit_host=bool(scheme) and not has_authority,
        path=path,
        raw_path="" if rest == _escape(path, _PATH) else rest,
        query=query,
        force_query=force_query,
    )


def _authority(scheme: str, authority: str) -> tuple[str | None, str]:
    info, at, host = authority.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return None, host
    if not _USER_INFO.fullmatch(info):
        raise EvaluationError("net/url: invalid userinfo")
    parts = info.split(":", 1)
    return ":".join(_escape(_unescape(part), _USER) for part in parts), host


def _host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise EvaluationError("invalid IP-literal")
    if bracket == 0:
        return _literal_host(host)
    colon = host.find(":")
    if colon >= 0:
        last = host.rfind(":")
        colon = colon if scheme in ("http", "https") else last
        _check_port(host[colon:])
    return _unescape(host, host=True)


def _check_port(port: str) -> None:
    if not _PORT.fullmatch(port):
        raise EvaluationError(f"invalid port {quote(port)} after host")


def _literal_host(host: str) -> str:
    close = host.rfind("]")
    if close < 0:
        raise EvaluationError("missing ']' in host")
    _check_port(host[close + 1 :])
    name, escaped_zone, zone = host[1:close].partition("%25")
    name = _unescape(name, host=True)
    if escaped_zone:
        name += _unescape(escaped_zone + zone, zone=True)
    try:
        address, _ = parse_address(name)
    except EvaluationError as reason:
        raise EvaluationError(f"invalid host: {reason}") from None
    if address.version == 4:
        raise EvaluationError("invalid IP-literal")
    return f"[{name}]{host[close + 1 :]}"


def _url(text: str) -> URL:
    try:
        return parse(text)
    except EvaluationError as reason:
        message = f"URL parse error during conversion from string: {reason}"
        raise EvaluationError(message) from None


def uri_problem(text: str) -> str | None:
    """Why a string is no URI of a request; None if it is one."""
    try:
        _parse(text, request=True)
    except EvaluationError as reason:
        return f"parse {quote(text)}: {reason}"
    return None


def _values_by_key(value: URL) -> Map:
    result: dict[object, tuple[Value, Value]] = {}
    for pair in value.query.split("&"):
        if not pair or ";" in pair:
            continue
        key, _, item = pair.partition("=")
        try:
            key, item = _unescape(key, plus=True), _unescape(item, plus=True)
        except EvaluationError:
            continue
        result.setdefault(key, (key, []))[1].append(item)
    return Map(result)


_URL = exactly(URL)

function("url", STRING)(_url)
function("isURL", STRING)(lambda text: uri_problem(text) is None)
method("getScheme", _URL)(lambda value: value.scheme)
method("getHost", _URL)(lambda value: value.host)
method("getHostname", _URL)(lambda value: value.host_and_port()[0])
method("getPort", _URL)(lambda value: value.host_and_port()[1])
method("getEscapedPath", _URL)(URL.escaped_path)
method("getQuery", _URL)(_values_by_key)
