//! Code samples: their languages, the values that the page fills in, and those of an HTTP request.

/// The languages of samples, as in a fenced block and on the page.
const LANGUAGES: [(&str, &str); 4] = [
    ("sh", "curl"),
    ("python", "Python"),
    ("javascript", "JavaScript"),
    ("rust", "Rust"),
];

/// The name on the page of the language of a fenced block. Other blocks are not samples.
pub(super) fn language(fence: &str) -> Option<&'static str> {
    let mut languages = LANGUAGES.iter();
    let found = languages.find(|(name, _)| *name == fence)?;
    Some(found.1)
}

/// What stands in code for the key and the address of the reader. The page fills in what it knows.
pub(super) const KEY: &str = "rb_...";
pub(super) const HTTP: &str = "http://127.0.0.1:8080";
const WS: &str = "ws://127.0.0.1:8080";

/// Characters for private use, which mark a value in code.
const START: char = '\u{E000}';
const NAME_END: char = '\u{E001}';
const END: char = '\u{E002}';

/// An example that the page replaces by a value that the service has.
pub(super) fn fill(name: &str, example: &str) -> String {
    format!("{START}{name}{NAME_END}{example}{END}")
}

/// Code as HTML.
pub(super) fn code_html(code: &str) -> String {
    let mut marked = code.to_owned();
    for (name, example) in [("key", KEY), ("http", HTTP), ("ws", WS)] {
        marked = marked.replace(example, &fill(name, example));
    }
    marked
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace(START, "<span data-fill=\"")
        .replace(NAME_END, "\">")
        .replace(END, "</span>")
}

/// The samples of a GET, as fenced blocks.
pub(super) fn of_get(path: &str, needs_key: bool) -> String {
    let url = format!("{HTTP}{path}");
    let (curl, python, javascript, rust) = if needs_key {
        (
            format!("-H 'X-API-Key: {KEY}' "),
            format!(", headers={{\"X-API-Key\": \"{KEY}\"}}"),
            format!(", {{\n  headers: {{ \"X-API-Key\": \"{KEY}\" }},\n}}"),
            format!("\n        .header(\"X-API-Key\", \"{KEY}\")"),
        )
    } else {
        Default::default()
    };
    format!(
        "```sh
curl --fail-with-body {curl}\\
  {url}
```

```python
import json
from urllib.request import Request, urlopen

url = \"{url}\"
with urlopen(Request(url{python})) as response:
    print(json.load(response))
```

```javascript
const url = \"{url}\";
const response = await fetch(url{javascript});
if (!response.ok) throw new Error(await response.text());
console.log(await response.json());
```

```rust
// cargo add ureq
fn main() -> Result<(), ureq::Error> {{
    let url = \"{url}\";
    let mut response = ureq::get(url){rust}
        .call()?;
    println!(\"{{}}\", response.body_mut().read_to_string()?);
    Ok(())
}}
```

"
    )
}
