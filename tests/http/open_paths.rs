//! The pages and documents that need no key: what they cost, and who may have how much of them.

use railbird::limits::Proxies;

use crate::support::*;

const LARGEST: &str = "/assets/swagger-ui/swagger-ui-bundle.js";

#[tokio::test]
async fn a_network_that_loads_documents_without_a_pause_is_limited_and_takes_nothing_from_others() {
    let nats = Nats::start();
    let railbird = Railbird::start_with(&nats, |config| {
        config.proxies = Proxies::new(vec![Proxies::parse("127.0.0.1").unwrap()]);
    })
    .await;
    let get = async |from: &str, path: &str| {
        let headers = [("x-forwarded-for", from)];
        request(railbird.http, "GET", path, &headers).await
    };
    // A person who reads all of the docs for the first time loads less.
    for _ in 0..20 {
        assert_eq!(get("2001:db8:1::1", LARGEST).await.status, 200);
    }
    // All addresses of a customer count together.
    eventually("it is limited", async || {
        get("2001:db8:1:2::1", LARGEST).await.status == 429
    })
    .await;
    let limited = get("2001:db8:1::1", "/docs").await;
    assert_eq!(limited.status, 429);
    assert_eq!(limited.json()["error"], "rate_limit_exceeded");
    let wait: u32 = limited.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");

    assert_eq!(get("2001:db8:1::1", "/readyz").await.status, 200);
    let key = [
        ("x-forwarded-for", "2001:db8:1::1"),
        ("x-api-key", railbird.key.as_str()),
    ];
    let with_key = request(railbird.http, "GET", "/api/v1/meetings", &key).await;
    assert_eq!(with_key.status, 200);
    assert_eq!(get("2001:db8:2::1", "/docs").await.status, 200);
}

/// To compress the largest takes 20 ms of a core.
#[tokio::test]
async fn no_request_has_a_document_compressed_anew() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    for path in [LARGEST, "/docs/search.json", "/openapi.json", "/docs"] {
        let plain = railbird
            .get_open(path)
            .await
            .header("content-length")
            .to_owned();
        for (accepted, coding) in [
            ("gzip, deflate, br", "gzip"),
            ("x-gzip", ""),
            ("*", ""),
            ("deflate, X-GZIP;q=0.5", ""),
        ] {
            let headers = [("accept-encoding", accepted)];
            let answer = request(railbird.http, "GET", path, &headers).await;
            assert_eq!(answer.status, 200, "{path}");
            let found = answer.header("content-encoding");
            assert_eq!(found, coding, "{path}, {accepted}");
            // What is compressed for a request is sent without its length, which nobody knows before.
            let length = answer.header("content-length");
            assert!(!length.is_empty(), "{path}, {accepted}");
            assert_eq!(
                length == plain,
                coding.is_empty(),
                "{path}, {accepted}: {length}"
            );
        }
    }
}
