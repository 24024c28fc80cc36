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
    let railbird = start(&nats, Origins::default()).await;
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
    for path in ["/status", "/pricing", "/account?token=x"] {
        assert_eq!(readers(&railbird, path, PAGE).await.1, "", "{path}");
    }
}

/// A browser hides a response without the header, and with a preflight that fails also its status.
#[tokio::test]
async fn a_page_that_may_not_send_a_key_can_read_why() {
    let nats = Nats::start();
    let listed = Origins::new(vec![PAGE.to_owned()]);
    for (origins, page) in [
        (Origins::default(), PAGE),
        (listed, "https://other.example"),
    ] {
        let railbird = start(&nats, origins).await;
        let live = format!("/ws/live/odds?api_key={}", railbird.key);
        for path in [PATH, "/api/v1/x.json", "/api/v1/account", &live] {
            let allowed = preflight(&railbird, path, page).await;
            let reader = allowed.header("access-control-allow-origin");
            assert_eq!((allowed.status, reader), (204, page), "{path}");
            let reply = railbird.get_with(path, &[("origin", page)]).await;
            let reader = reply.header("access-control-allow-origin");
            assert_eq!((reply.status, reader), (403, page), "{path}");
            assert!(
                reply
                    .headers
                    .get_all("vary")
                    .iter()
                    .any(|value| value == "origin")
            );
            assert_eq!(reply.json()["error"], "origin_not_allowed");
            let message = reply.json()["message"].as_str().unwrap().to_owned();
            assert!(
                message.contains(page) && message.contains("--origins"),
                "{message}"
            );
        }
        // Nothing else can be read.
        let keyless = request(railbird.http, "GET", PATH, &[("origin", page)]).await;
        let reader = keyless.header("access-control-allow-origin");
        assert_eq!((keyless.status, reader), (401, ""));
    }
}

/// A browser tells a page nothing of a handshake that failed; a GET of the same address has the reason.
#[tokio::test]
async fn a_page_of_an_allowed_origin_can_read_why_a_handshake_fails() {
    let nats = Nats::start();
    let railbird = start(&nats, Origins::new(vec![PAGE.to_owned()])).await;
    for (query, status) in [
        ("", 401),
        (&*format!("?api_key={}", railbird.key), 426),
        (&*format!("?api_key={}&venues=ST", railbird.key), 400),
    ] {
        let path = format!("/ws/live/odds{query}");
        let reply = request(railbird.http, "GET", &path, &[("origin", PAGE)]).await;
        let reader = reply.header("access-control-allow-origin");
        assert_eq!((reply.status, reader), (status, PAGE));
    }
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
    let vary = reply.headers.get_all("vary").iter();
    assert!(vary.into_iter().any(|value| value == "origin"));
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
