//! A service that is killed at every point of a mail: nothing is lost, and one key works.

use super::*;

/// Stops a service at a stage, kills it there, and starts it again. Returns the keys of all mails that the server has had, first
/// to last, and how many keys there ever were.
async fn killed_at(stage: &str) -> (Post, Serving, Vec<String>) {
    let mut post = Post::start_impatient().await;
    post.server.at(stage, "hold", 1).await;
    let mut service = post.serve().await;
    post.subscribe("anna").await;
    post.server.until_at(stage, 1).await;
    service.kill();
    post.server.go(stage).await;
    let service = post.serve().await;
    post.until_delivered("anna").await;
    let keys = post.server.mails().iter().map(ReceivedMail::key).collect();
    (post, service, keys)
}

async fn one_key_works(post: &Post, service: &Serving, keys: &[String]) {
    let (last, earlier) = keys.split_last().expect("a mail");
    assert_eq!(status_of(service, last).await, 200);
    for key in earlier {
        assert_eq!(status_of(service, key).await, 401);
    }
    assert_eq!(post.keys().await.0, 1);
}

#[tokio::test]
async fn killed_before_it_says_that_it_tries() {
    let (post, service, keys) = killed_at("connect").await;
    one_key_works(&post, &service, &keys).await;
    assert_eq!((keys.len(), post.keys().await), (1, (1, 1)));
}

#[tokio::test]
async fn killed_after_it_said_so_and_before_the_mail_is_sent() {
    for stage in ["mail", "rcpt"] {
        let (post, service, keys) = killed_at(stage).await;
        one_key_works(&post, &service, &keys).await;
        assert_eq!((keys.len(), post.keys().await), (1, (1, 2)), "{stage}");
    }
}

#[tokio::test]
async fn killed_after_the_mail_was_sent_and_before_it_says_so() {
    let (post, service, keys) = killed_at("data").await;
    one_key_works(&post, &service, &keys).await;
    assert_eq!((keys.len(), post.keys().await), (2, (1, 2)));
}

#[tokio::test]
async fn killed_before_it_wishes_the_mail() {
    let post = Post::start().await;
    let service = post.serve().await;
    drop(service);
    // Nobody is there when it comes.
    post.subscribe("anna").await;
    let service = post.serve().await;
    post.until_delivered("anna").await;
    let keys: Vec<_> = post.server.mails().iter().map(ReceivedMail::key).collect();
    one_key_works(&post, &service, &keys).await;
    assert_eq!(keys.len(), 1);
}

#[tokio::test]
async fn what_one_replica_began_another_one_ends() {
    let mut post = Post::start_impatient().await;
    post.server.at("data", "hold", 1).await;
    let mut first = post.serve().await;
    post.subscribe("anna").await;
    post.server.until_at("data", 1).await;
    let other = tempfile::tempdir().unwrap();
    let second = post.serve_in(other.path()).await;
    first.kill();
    post.until_delivered("anna").await;
    let keys: Vec<_> = post.server.mails().iter().map(ReceivedMail::key).collect();
    one_key_works(&post, &second, &keys).await;
    assert_eq!((keys.len(), post.keys().await), (2, (1, 2)));
}

#[tokio::test]
async fn who_is_asked_to_stop_ends_what_is_on_its_way() {
    let mut post = Post::start().await;
    post.server.at("data", "hold", 1).await;
    let service = post.serve().await;
    post.subscribe("anna").await;
    post.server.until_at("data", 1).await;
    let stopping = tokio::spawn(service.stop());
    post.server.go("data").await;
    stopping.await.unwrap();
    let mail = post.mail_of("anna").await.unwrap();
    assert_eq!(
        (mail.state, mail.attempt.unwrap().number),
        (MailState::Delivered, 1)
    );
    assert_eq!((post.server.mails().len(), post.keys().await), (1, (1, 1)));
}

#[tokio::test]
async fn nats_is_killed_while_a_mail_is_on_its_way() {
    let mut post = Post::start().await;
    post.server.at("data", "hold", 1).await;
    let service = post.serve().await;
    post.subscribe("anna").await;
    post.server.until_at("data", 1).await;
    post.nats.kill();
    post.server.go("data").await;
    post.nats.start_again();
    let mail = post.until_delivered("anna").await;
    let keys: Vec<_> = post.server.mails().iter().map(ReceivedMail::key).collect();
    assert_eq!(keys.len(), usize::try_from(mail.attempts()).unwrap());
    eventually("the key works", || async {
        status_of(&service, &keys[keys.len() - 1]).await == 200
    })
    .await;
    one_key_works(&post, &service, &keys).await;
}
