"""Who asks an aggregated API, as Kubernetes documents request-header authentication."""

from __future__ import annotations

import json
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.certificates import Authority
from tests.client.fault_server import FaultServer
from tests.server.conftest import Client as Browser
from tests.server.conftest import Ports, serving, trusting

from bayplan.client.http import Http
from bayplan.server.access import IMPERSONATED, Access, Credentials
from bayplan.server.front_proxy import FrontProxy
from bayplan.server.pages import Answer, Attributes, Page, PageRequest, Pages
from bayplan.server.reviews import AccessReviews, TokenReviews
from bayplan.server.users import IMPERSONATION, Client, User

PROXY = "front-proxy"
DATA = {
    "client-ca-file": "of users",
    "requestheader-client-ca-file": "of proxies",
    "requestheader-allowed-names": json.dumps([PROXY]),
    "requestheader-username-headers": json.dumps(["X-First", "X-Remote-User"]),
    "requestheader-uid-headers": json.dumps(["X-Remote-Uid"]),
    "requestheader-group-headers": json.dumps(["X-Remote-Group"]),
    "requestheader-extra-headers-prefix": json.dumps(["X-Remote-Extra-"]),
}


def certificate(name: str) -> dict[str, Any]:
    return {"subject": ((("commonName", name),),)}


def headers(*pairs: tuple[str, str]) -> Message:
    message = Message()
    for name, value in pairs:
        message[name] = value
    return message


def proxy(http: Http, server: FaultServer, **data: str | None) -> FrontProxy:
    changed = {key: value for key, value in (DATA | data).items() if value is not None}
    server.script = lambda exchange: exchange.answer(200, {"data": changed})
    made = FrontProxy(http)
    made.authority.refresh()
    return made


def test_the_headers_that_the_config_map_names_say_who_asks(
    http: Http, api_server: FaultServer
) -> None:
    made = proxy(http, api_server)
    assert (made.authority(), made.problem) == (b"of proxies", "")
    sent = headers(
        ("x-remote-user", "j\xc3\xb6rg"),
        ("X-Remote-Uid", "7"),
        ("X-Remote-Group", "a"),
        ("X-Remote-Group", ""),
        ("X-Remote-Group", "b"),
        ("X-Remote-Extra-Example.org%2fscope", "one"),
        ("x-remote-extra-example.org%2Fscope", "two"),
        ("X-Other-Group", "c"),
    )
    assert made.user(Client(sent, certificate(PROXY))) == User(
        "jörg",
        "7",
        ("a", "b", "system:authenticated"),
        (("example.org/scope", ("one", "two")),),
    )
    both = headers(("X-Remote-User", "second"), ("X-First", "first"))
    user = made.user(Client(both, certificate(PROXY)))
    assert user is not None
    assert user.name == "first"


def test_whom_the_api_server_has_not_authenticated_stays_anonymous(
    http: Http, api_server: FaultServer
) -> None:
    sent = (("X-Remote-User", "system:anonymous"), ("X-Remote-Group", "system:unauthenticated"))
    user = proxy(http, api_server).user(Client(headers(*sent), certificate(PROXY)))
    assert user == User("system:anonymous", groups=("system:unauthenticated",))


@pytest.mark.parametrize(
    ("shown", "sent", "data"),
    [
        pytest.param({}, [("X-Remote-User", "a")], {}, id="no certificate"),
        pytest.param(certificate("other"), [("X-Remote-User", "a")], {}, id="another name"),
        pytest.param(certificate(PROXY), [("X-Remote-Group", "a")], {}, id="no user"),
        pytest.param(certificate(PROXY), [("X-Remote-User", "")], {}, id="an empty user"),
        pytest.param(
            certificate(PROXY),
            [("X-Remote-User", "a")],
            {"requestheader-client-ca-file": None},
            id="an API server without aggregation",
        ),
        pytest.param(
            certificate(PROXY),
            [("X-Remote-User", "a")],
            {"requestheader-allowed-names": "[front-proxy"},
            id="a ConfigMap that is broken",
        ),
        pytest.param(
            certificate(PROXY),
            [("X-Remote-User", "a")],
            {"requestheader-group-headers": "{}"},
            id="a list that is none",
        ),
    ],
)
def test_nobody_else_is_believed(
    http: Http, api_server: FaultServer, shown: Any, sent: Any, data: Any
) -> None:
    assert proxy(http, api_server, **data).user(Client(headers(*sent), shown)) is None


def test_any_name_is_good_where_none_is_listed(http: Http, api_server: FaultServer) -> None:
    made = proxy(http, api_server, **{"requestheader-allowed-names": "[]"})
    assert made.user(Client(headers(("X-Remote-User", "a")), certificate("other"))) is not None


def test_before_the_config_map_was_read_nobody_is_believed(http: Http) -> None:
    made = FrontProxy(http)
    assert "has no requestheader-client-ca-file" in made.problem
    assert made.user(Client(headers(("X-Remote-User", "a")), certificate(PROXY))) is None


TEXT = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1)


@given(
    st.builds(
        User,
        TEXT,
        TEXT | st.just(""),
        st.lists(TEXT).map(tuple),
        st.dictionaries(TEXT.map(str.lower), st.lists(TEXT, min_size=1).map(tuple)).map(
            lambda extra: tuple(sorted(extra.items()))
        ),
    )
)
def test_a_user_is_the_same_at_the_other_end(user: User) -> None:
    sent = [line.encode().decode("latin-1").partition(": ") for line in IMPERSONATION.lines(user)]
    found = IMPERSONATION.user(headers(*((name, value) for name, _, value in sent)))
    lowered = {key.lower(): values for key, values in user.extra}
    assert found is not None
    assert (found.name, found.uid, found.groups) == user[:3]
    assert dict(found.extra) == lowered


@pytest.mark.parametrize("name", ["a\r\nImpersonate-Group: system:masters", "a\nb", "\0"])
def test_a_name_that_would_be_another_header_is_not_sent(name: str) -> None:
    with pytest.raises(ValueError, match="control character"):
        IMPERSONATION.lines(User(name))


class Reviewed:
    """An API server where ``api`` may impersonate, and ``alice`` may list Pods."""

    def __init__(self, server: FaultServer) -> None:
        self.spec: list[Any] = []
        server.script = self.serve

    def serve(self, exchange: Any) -> None:
        spec = exchange.json()["spec"]
        if exchange.json()["kind"] == "TokenReview":
            user = {"username": spec["token"], "groups": []}
            exchange.answer(201, {"status": {"authenticated": True, "user": user}})
            return
        self.spec.append(spec)
        allowed = {("api", "impersonate"), ("alice", "list")}
        wanted = spec.get("resourceAttributes", {"verb": ""})
        exchange.answer(201, {"status": {"allowed": (spec["user"], wanted["verb"]) in allowed}})


def asks(request: PageRequest) -> Answer:
    return Answer(200 if request.may(Attributes("list", "pods")) else 403, b"")


@pytest.mark.parametrize(
    ("token", "acts_as", "status"),
    [
        ("alice", "", 200),
        ("api", "", 403),
        ("api", "alice", 200),
        ("api", "bob", 403),
        ("bob", "alice", 403),
        ("bob", "", 403),
    ],
)
def test_whoever_may_impersonate_sees_what_the_other_one_may(
    ports: Ports,
    http: Http,
    api_server: FaultServer,
    authority: Authority,
    token: str,
    acts_as: str,
    status: int,
) -> None:
    reviewed = Reviewed(api_server)
    access = Access(Credentials(TokenReviews(http)).user, AccessReviews(http), ())
    pages: Pages = {"/why": Page(asks, asks=True), "/debug": Page(asks)}
    port = ports.start(pages, tls=serving(authority), access=access)
    browser = Browser(port.port, trusting(authority))
    acting = {"Impersonate-User": acts_as, "Impersonate-Group": "g"} if acts_as else {}
    assert browser.get("/why", authorization=f"Bearer {token}", headers=acting).status == status
    asked = [spec for spec in reviewed.spec if spec["user"] == acts_as]
    if acts_as and token == "api":
        assert asked[0]["groups"] == ["g", "system:authenticated"]
        wanted = reviewed.spec[0]["resourceAttributes"]
        assert wanted == {key: value for key, value in IMPERSONATED._asdict().items() if value}
    else:
        assert asked == []
    # Other pages are for whoever asks, in whatever name.
    assert browser.get("/debug", authorization=f"Bearer {token}", headers=acting).status == 403
    assert reviewed.spec[-1]["user"] == token


def test_a_proxys_certificate_is_asked_for_when_its_authority_is_known(
    ports: Ports, http: Http, api_server: FaultServer, authority: Authority, tmp_path: Path
) -> None:
    proxies = Authority()
    made = proxy(http, api_server, **{"requestheader-client-ca-file": proxies.ca.decode()})
    access = Access(made.user, AccessReviews(http), ())
    pages: Pages = {"/why": Page(lambda r: Answer(200, r.user.name.encode()), asks=True)}
    port = ports.start(pages, tls=serving(authority, made.authority()), access=access)
    context = trusting(authority)
    context.load_cert_chain(*proxies.files(PROXY, tmp_path))
    sent = {"X-Remote-User": "alice"}
    assert Browser(port.port, context).get("/why", headers=sent).body == "alice"
    assert Browser(port.port, trusting(authority)).get("/why", headers=sent).status == 401
