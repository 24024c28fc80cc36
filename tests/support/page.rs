//! [`Page`]: a page in a real browser, driven by `tests/browser/board.mjs`.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use super::BrowserScript;

pub(crate) struct Page(BrowserScript);

impl Page {
    /// Starts a browser for the pages of a service.
    pub(crate) fn of(service: SocketAddr) -> Self {
        Self(BrowserScript::start("board.mjs", service, &[]))
    }

    /// Carries out a command of `board.mjs`, and returns its answer.
    async fn run(&mut self, command: Value) -> Value {
        self.0.send(&command.to_string()).await;
        let mut answer = self.0.done().await;
        assert!(answer.get("error").is_none(), "{}", answer["error"]);
        answer["ok"].take()
    }

    pub(crate) async fn open(&mut self, options: Value) {
        self.run(json!(["open", options])).await;
    }

    /// Opens an address in another tab, by a link on a page of another site.
    pub(crate) async fn follow(&mut self, fragment: &str) {
        self.run(json!(["follow", fragment])).await;
    }

    /// Waits until the text of one of the elements has a part.
    pub(crate) async fn until(&mut self, selector: &str, part: &str) {
        self.run(json!(["until", selector, part])).await;
    }

    pub(crate) async fn texts(&mut self, selector: &str) -> Vec<String> {
        serde_json::from_value(self.run(json!(["texts", selector])).await).unwrap()
    }

    /// The text of the only element.
    pub(crate) async fn text(&mut self, selector: &str) -> String {
        let mut texts = self.texts(selector).await;
        assert_eq!(texts.len(), 1, "{selector}: {texts:?}");
        texts.remove(0)
    }

    pub(crate) async fn attribute(&mut self, selector: &str, name: &str) -> String {
        let value = self.run(json!(["attribute", selector, name])).await;
        value.as_str().unwrap_or_default().to_owned()
    }

    pub(crate) async fn click(&mut self, selector: &str) {
        self.run(json!(["click", selector])).await;
    }

    pub(crate) async fn hover(&mut self, selector: &str) {
        self.run(json!(["hover", selector])).await;
    }

    /// Drags from a part of the width of an element to another one.
    pub(crate) async fn drag(&mut self, selector: &str, from: f64, to: f64) {
        self.run(json!(["drag", selector, from, to])).await;
    }

    pub(crate) async fn press(&mut self, key: &str) {
        self.run(json!(["press", key])).await;
    }

    pub(crate) async fn fill(&mut self, selector: &str, text: &str) {
        self.run(json!(["fill", selector, text])).await;
    }

    /// Shows the page at a width, light or dark.
    pub(crate) async fn look(&mut self, width: u32, scheme: &str) {
        self.run(json!(["look", width, scheme])).await;
    }

    pub(crate) async fn reload(&mut self) {
        self.run(json!(["reload"])).await;
    }

    /// Has the requests answered that the page was opened with as `held`.
    pub(crate) async fn release(&mut self) {
        self.run(json!(["release"])).await;
    }

    pub(crate) async fn evaluate(&mut self, script: &str) -> Value {
        self.run(json!(["evaluate", script])).await
    }

    /// Waits until an expression is true.
    pub(crate) async fn until_true(&mut self, expression: &str) {
        self.run(json!(["until_true", expression])).await;
    }

    /// Shows the page as it is printed.
    pub(crate) async fn print(&mut self) {
        self.run(json!(["media", "print"])).await;
    }

    pub(crate) async fn picture(&mut self, path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        self.run(json!(["picture", path])).await;
    }

    /// How much two pictures differ, 0 to 255.
    pub(crate) async fn difference(&mut self, one: &Path, other: &Path) -> f64 {
        let difference = self.run(json!(["difference", one, other])).await;
        difference.as_f64().unwrap()
    }

    /// Checks that nothing was written to the console, no script failed, and no other host was requested.
    pub(crate) async fn assert_no_problems(&mut self) {
        assert_eq!(self.run(json!(["problems"])).await, json!([]));
    }

    /// Checks that axe-core objects to nothing.
    pub(crate) async fn assert_accessible(&mut self) {
        assert_eq!(self.run(json!(["axe"])).await, json!([]));
    }
}
