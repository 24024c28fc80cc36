//! The search of the docs, over all that it has.

use super::*;

#[tokio::test]
async fn readers_find_their_page_by_words_of_their_own() {
    let railbird = empty_service().await;
    let mut script = BrowserScript::start("docs_search.mjs", railbird.http, &[]);
    let searched = script.done().await;
    assert!(searched["searched"].as_u64() > Some(30), "{searched}");
    script.finished().await;
}
