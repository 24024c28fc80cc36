//! The admin address: it obeys operators and their programs, and no web page.

use railbird::http::AdminAccess;

use crate::support::*;

/// All paths, as a page would use them.
const PATHS: [(&str, &str); 7] = [
    ("POST", "/rebuild"),
    ("POST", "/log/accept"),
    ("GET", "/rejections"),
    ("GET", "/metrics"),
    ("GET", "/status"),
    ("GET", "/views"),
    ("GET", "/digest?recount=true"),
];

/// The status and the code of an answer.
fn refusal(reply: &Reply) -> (u16, String) {
    let code = reply.json()["error"].as_str().unwrap().to_owned();
    (reply.status, code)
}

async fn rebuilds(railbird: &Railbird) -> u64 {
    let status = railbird.get_admin("/status").await.json();
    status["rebuilds"].as_u64().unwrap() + u64::from(!status["rebuild"].is_null())
}

#[tokio::test]
async fn a_page_of_another_origin_has_no_effect() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    for (method, path) in PATHS {
        for headers in [
            ("origin", "https://evil.example"),
            ("origin", "null"),
            // A browser names no origin for an image or a link.
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
        ] {
            let reply = request(railbird.admin, method, path, &[headers]).await;
            let expected = (403, "origin_not_allowed".to_owned());
            assert_eq!(refusal(&reply), expected, "{method} {path} {headers:?}");
        }
    }
    assert_eq!(rebuilds(&railbird).await, 0);
    // An operator who types the address, and pages of the address itself.
    let own = format!("http://{}", railbird.admin);
    for headers in [
        ("sec-fetch-site", "none"),
        ("sec-fetch-site", "same-origin"),
        ("origin", own.as_str()),
    ] {
        let reply = request(railbird.admin, "GET", "/status", &[headers]).await;
        assert_eq!(reply.status, 200, "{headers:?}");
    }
    let reply = request(railbird.admin, "POST", "/rebuild", &[]).await;
    assert_eq!(reply.status, 202, "{}", reply.text());
}

/// The page of `evil.example` reads the answers after its name has become that of 127.0.0.1: for the browser, they are
/// of its own origin.
#[tokio::test]
async fn a_name_that_was_rebound_to_the_address_reads_nothing() {
    let nats = Nats::start();
    let railbird = Railbird::start(&nats).await;
    let port = railbird.admin.port();
    for name in [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "192.0.2.1",
        "",
    ] {
        for (method, path) in PATHS {
            let host = format!("{name}:{port}");
            let reply = request(railbird.admin, method, path, &[("host", &host)]).await;
            let expected = (421, "host_not_allowed".to_owned());
            assert_eq!(refusal(&reply), expected, "{method} {path} of {host}");
        }
    }
    assert_eq!(rebuilds(&railbird).await, 0);
    for host in [
        format!("localhost:{port}"),
        format!("LocalHost:{port}"),
        "localhost".to_owned(),
        format!("127.0.0.1:{port}"),
        format!("[::1]:{port}"),
        // Through a tunnel, which has another port.
        "127.0.0.1:9999".to_owned(),
    ] {
        let reply = request(railbird.admin, "GET", "/status", &[("host", &host)]).await;
        assert_eq!(reply.status, 200, "{host}: {}", reply.text());
    }
}

/// A token of the least length.
const TOKEN: &str = "0123456789abcdef";

#[tokio::test]
async fn with_a_token_no_other_request_is_answered() {
    let nats = Nats::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let file = file.to_string_lossy().into_owned();
    let url = nats.url();
    let flags = ["--http", "127.0.0.1:0", "--nats", &url];
    let flags = [&flags[..], &["--admin-token-file", &file]].concat();
    let serving = Serving::start_with(&flags, &folder.path().join("data"));
    for (method, path) in PATHS {
        for token in [
            None,
            Some("Bearer"),
            Some("Bearer 0123456789abcdee"),
            Some(TOKEN),
        ] {
            let headers: Vec<_> = token
                .map(|token| ("authorization", token))
                .into_iter()
                .collect();
            let reply = request(serving.admin, method, path, &headers).await;
            let expected = (401, "unauthorized".to_owned());
            assert_eq!(refusal(&reply), expected, "{method} {path} {token:?}");
            assert_eq!(reply.header("www-authenticate"), "Bearer");
        }
    }
    // The health check of a container has no token.
    let reply = request(serving.admin, "GET", "/healthz", &[]).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let bearer = format!("Bearer {TOKEN}");
    let reply = request(
        serving.admin,
        "GET",
        "/metrics",
        &[("authorization", &bearer)],
    )
    .await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    eventually("the service is ready", || async {
        request(serving.http, "GET", "/readyz", &[]).await.status == 200
    })
    .await;
    let admin = serving.admin.to_string();
    for (token, code) in [
        (&["--admin-token-file", &file][..], 0),
        (&["--admin-token", TOKEN], 0),
        (&["--admin-token", "0123456789abcdee"], 1),
        (&["--admin-token", "short"], 78),
        (&["--admin-token-file", "/no/such/file"], 78),
        (&[], 1),
    ] {
        let verify = ["verify", "--nats", &url, "--admin", &admin];
        let output = railbird([&verify[..], token].concat()).await;
        assert_eq!(output.code, code, "{token:?}: {}", output.all);
        assert!(!output.all.contains("0123456789abcde"), "{}", output.all);
    }
    let log = serving.stop().await.join("\n");
    assert!(!log.contains(TOKEN), "{log}");
}

#[tokio::test]
async fn another_name_of_the_address_has_to_be_listed() {
    let nats = Nats::start();
    let listed = |config: &mut railbird::app::Config| {
        config.admin_access = AdminAccess::new(vec!["Railbird".to_owned()], None);
    };
    let railbird = Railbird::start_with(&nats, listed).await;
    for (host, status) in [
        ("railbird:9090", 200),
        ("RAILBIRD", 200),
        ("other:9090", 421),
    ] {
        let reply = request(railbird.admin, "GET", "/status", &[("host", host)]).await;
        assert_eq!(reply.status, status, "{host}");
    }
}
