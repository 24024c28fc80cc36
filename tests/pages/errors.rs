//! Errors: pages for browsers, JSON for programs. The icon, and what crawlers are told.

use serde_json::json;

use crate::support::*;

/// What Chromium, Firefox and Safari accept of a page.
const BROWSER: (&str, &str) = (
    "accept",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
);

#[tokio::test]
async fn an_error_is_a_page_in_a_browser_and_json_for_programs() {
    let railbird = Railbird::start(&Nats::start()).await;
    for (path, status, root) in [
        ("/nope", 404, ""),
        ("/a/b/nope", 404, "../../"),
        ("/assets/nope.js", 404, "../"),
        ("/schemas/nope.json", 404, "../"),
        ("/.well-known/security.txt", 404, "../"),
        ("/api/v1/meetings", 401, "../../"),
        ("/ws/live/odds", 401, "../../"),
        ("/readyz?fresh=x", 400, ""),
    ] {
        let page = request(railbird.http, "GET", path, &[BROWSER]).await;
        let json = railbird.get_open(path).await;
        assert_eq!((page.status, json.status), (status, status), "{path}");
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
        let html = page.text();
        assert!(html.contains("<h1>"), "{path}: {html}");
        for link in ["docs", "account", "pricing"] {
            let link = format!("<a href=\"{root}{link}\"");
            assert!(html.contains(&link), "{path} has no {link}: {html}");
        }
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none';"), "{policy}");
        assert_eq!(page.header("cache-control"), "no-store", "{path}");
        // What a program may decide by.
        let challenge = "www-authenticate";
        assert_eq!(page.header(challenge), json.header(challenge), "{path}");
        let head = request(railbird.http, "HEAD", path, &[BROWSER]).await;
        let length = page.body.len().to_string();
        assert_eq!(
            (head.status, head.header("content-length")),
            (status, &*length),
            "{path}"
        );

        for accept in ["*/*", "application/json, text/html", "text/html;q=0, */*"] {
            let program = request(railbird.http, "GET", path, &[("accept", accept)]).await;
            assert_eq!(program.json(), json.json(), "{path} for {accept}");
        }
        // Programs that follow the type of Java's URL connection.
        let headers = [("accept", "text/html, *; q=.2"), ("x-api-key", "wrong")];
        let program = request(railbird.http, "GET", path, &headers).await;
        assert_eq!(program.header("content-type"), "application/json", "{path}");
    }
    // It says of itself why it is not ready, and that is no error.
    let ready = request(railbird.http, "GET", "/readyz", &[BROWSER]).await;
    assert_eq!(ready.json()["ready"], json!(true));
}

#[tokio::test]
async fn there_are_an_icon_and_a_file_for_crawlers() {
    let railbird = Railbird::start(&Nats::start()).await;
    let icon = railbird.get_open("/favicon.ico").await;
    assert_eq!(
        (icon.status, icon.header("content-type")),
        (200, "image/svg+xml")
    );
    assert!(icon.text().starts_with("<svg"), "{}", icon.text());
    let robots = railbird.get_open("/robots.txt").await;
    assert_eq!(robots.status, 200);
    assert_eq!(robots.header("content-type"), "text/plain; charset=utf-8");
    assert!(
        robots.text().contains("Disallow: /api/"),
        "{}",
        robots.text()
    );
}

#[tokio::test]
async fn the_page_of_an_error_leads_on() {
    let railbird = Railbird::start(&Nats::start()).await;
    let temp = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("RAILBIRD_SCREENSHOTS");
    let folder = kept.map_or(temp.path().to_owned(), Into::into);
    let mut page = Page::of(railbird.http);
    for (path, title, picture) in [
        ("a/b/nope", "Page not found", "error-404"),
        ("api/v1/meetings", "A key is needed", "error-401"),
    ] {
        for (scheme, width) in [("light", 1280), ("dark", 360)] {
            let options = json!({ "fragment": path, "scheme": scheme, "width": width });
            page.open(options).await;
            assert_eq!(page.text("h1").await, title);
            page.assert_accessible().await;
            let picture = format!("{picture}-{width}-{scheme}.png");
            page.picture(&folder.join(picture)).await;
        }
        page.click("main a[href$=docs]").await;
        page.until("h1", "Get started").await;
        assert_eq!(page.evaluate("location.pathname").await, "/docs");
    }
}
