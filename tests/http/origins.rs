//! Which web pages may read what: docs/api.md, "Web pages".

use railbird::http::Origins;

use crate::support::*;

const PAGE: &str = "https://racing.example";
const PATH: &str = "/api/v1/meetings";

async fn start(nats: &Nats, origins: Origins) -> Railbird {
    Railbird::start_with(nats, |config| config.origins = origins).await
}

/// The origins that may read a response.
async fn readers(railbird: &Railbird, path: &str, origin: &str) -> (u16, String) {
    let reply = railbird.get_with(path, &[("origin", origin)]).await;
    let allowed = reply.header("access-control-allow-origin");
    (reply.status, allowed.to_owned())
}

/// What a browser sends before a request with a key.
async fn preflight(railbird: &Railbird, path: &str, origin: &str) -> Reply {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "GET"),
        ("access-control-request-headers", "x-api-key"),
    ];
    request(railbird.http, "OPTIONS", path, &headers).await
}

#[tokio::test]
async fn every_page_may_read_the_documents_and_none_of_another_origin_the_api() {
    let nats = Nats::start();
    let railbird = start(&nats, Origins::None).await;
    for path in [
        "/healthz",
        "/readyz",
        "/status.json",
        "/openapi.json",
        "/asyncapi.json",
        "/schemas/racing.odds.quoted.v1.json",
    ] {
        assert_eq!(
            readers(&railbird, path, PAGE).await,
            (200, "*".to_owned()),
            "{path}"
        );
    }
    let none = "/schemas/none.json";
    assert_eq!(readers(&railbird, none, PAGE).await, (404, "*".to_owned()));
    for path in [
        PATH,
        "/status",
        "/pricing",
        "/account?token=x",
        "/api/v1/x.json",
    ] {
        assert_eq!(readers(&railbird, path, PAGE).await.1, "", "{path}");
    }
    let refused = preflight(&railbird, PATH, PAGE).await;
    assert_eq!((refused.status, refused.header("vary")), (401, ""));
}

#[tokio::test]
async fn pages_of_allowed_origins_may_read_the_api() {
    let nats = Nats::start();
    let listed = Origins::new(vec![PAGE.to_owned()]);
    let railbird = start(&nats, listed).await;
    let answer = preflight(&railbird, PATH, PAGE).await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    for (name, value) in [
        ("access-control-allow-origin", PAGE),
        ("access-control-allow-methods", "GET, HEAD"),
        ("vary", "origin"),
    ] {
        assert_eq!(answer.header(name), value, "{name}");
    }
    let allowed = answer.header("access-control-allow-headers");
    for name in ["x-api-key", "railbird-min-seq", "if-none-match"] {
        assert!(
            allowed.split(", ").any(|header| header == name),
            "{allowed}"
        );
    }
    let reply = railbird.get_with(PATH, &[("origin", PAGE)]).await;
    assert_eq!(
        (reply.status, reply.header("access-control-allow-origin")),
        (200, PAGE)
    );
    let exposed = reply.header("access-control-expose-headers");
    for name in [
        "etag",
        "link",
        "railbird-schema",
        "railbird-seq",
        "retry-after",
        "x-ratelimit-remaining",
    ] {
        assert!(
            exposed.split(", ").any(|header| header == name),
            "{exposed}"
        );
    }
    // An answer to one page must not be used for another.
    for origin in ["https://other.example", "null"] {
        let reply = railbird.get_with(PATH, &[("origin", origin)]).await;
        assert_eq!(reply.header("access-control-allow-origin"), "", "{origin}");
        let vary = reply.headers.get_all("vary").iter();
        assert!(vary.into_iter().any(|value| value == "origin"), "{origin}");
        assert_eq!(preflight(&railbird, PATH, origin).await.status, 401);
    }
    // A page can see why it was rejected.
    let keyless = request(railbird.http, "GET", PATH, &[("origin", PAGE)]).await;
    assert_eq!(
        (
            keyless.status,
            keyless.header("access-control-allow-origin")
        ),
        (401, PAGE)
    );
}

#[tokio::test]
async fn an_asterisk_allows_all_pages() {
    let nats = Nats::start();
    let any = Origins::new(vec![PAGE.to_owned(), "*".to_owned()]);
    let railbird = start(&nats, any).await;
    assert_eq!(
        readers(&railbird, PATH, "null").await,
        (200, "*".to_owned())
    );
    assert_eq!(preflight(&railbird, PATH, "null").await.status, 204);
    let method = request(railbird.http, "OPTIONS", PATH, &[("origin", PAGE)]).await;
    assert_eq!(method.status, 401, "it is no preflight");
}
