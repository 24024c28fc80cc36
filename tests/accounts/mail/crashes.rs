//! A service is killed at every step of a mail: no mail is lost, and one link works.

use super::*;

/// Kills a service at a stage, and starts it again. Returns all mails that the server
/// received, in order.
async fn killed_at(stage: &str) -> (MailFixture, Serving, Vec<ReceivedMail>) {
    let mut fixture = MailFixture::with_short_timeout().await;
    fixture.server.at(stage, "hold", 1).await;
    let mut service = fixture.serve().await;
    fixture.subscribe("anna").await;
    fixture.server.until_at(stage, 1).await;
    service.kill();
    fixture.server.release(stage).await;
    let service = fixture.serve().await;
    fixture.until_delivered("anna").await;
    let mails = fixture.server.mails();
    (fixture, service, mails)
}

async fn one_link_works(service: &Serving, mails: &[ReceivedMail]) {
    let (last, earlier) = mails.split_last().expect("a mail");
    until_link_works(service, last).await;
    for mail in earlier {
        assert_eq!(link_status(service, mail).await, 404);
    }
}

#[tokio::test]
async fn killed_before_an_attempt_is_recorded() {
    let (fixture, service, mails) = killed_at("connect").await;
    one_link_works(&service, &mails).await;
    assert_eq!((mails.len(), fixture.attempts().await), (1, 1));
}

#[tokio::test]
async fn killed_after_an_attempt_is_recorded() {
    for stage in ["mail", "rcpt"] {
        let (fixture, service, mails) = killed_at(stage).await;
        one_link_works(&service, &mails).await;
        assert_eq!((mails.len(), fixture.attempts().await), (1, 2), "{stage}");
    }
}

#[tokio::test]
async fn killed_before_the_delivery_is_recorded() {
    let (fixture, service, mails) = killed_at("data").await;
    one_link_works(&service, &mails).await;
    assert_eq!((mails.len(), fixture.attempts().await), (2, 2));
}

#[tokio::test]
async fn killed_before_the_subscription_is_requested() {
    let fixture = MailFixture::start().await;
    let service = fixture.serve().await;
    drop(service);
    // No service runs when the subscription is requested.
    fixture.subscribe("anna").await;
    let service = fixture.serve().await;
    fixture.until_delivered("anna").await;
    let mails = fixture.server.mails();
    one_link_works(&service, &mails).await;
    assert_eq!(mails.len(), 1);
}

#[tokio::test]
async fn another_replica_takes_over_a_mail() {
    let mut fixture = MailFixture::with_short_timeout().await;
    fixture.server.at("data", "hold", 1).await;
    let mut first = fixture.serve().await;
    fixture.subscribe("anna").await;
    fixture.server.until_at("data", 1).await;
    let other = tempfile::tempdir().unwrap();
    let second = fixture.serve_in(other.path()).await;
    first.kill();
    fixture.until_delivered("anna").await;
    let mails = fixture.server.mails();
    one_link_works(&second, &mails).await;
    assert_eq!((mails.len(), fixture.attempts().await), (2, 2));
}

#[tokio::test]
async fn a_mail_in_progress_is_finished_at_the_shutdown() {
    let mut fixture = MailFixture::start().await;
    fixture.server.at("data", "hold", 1).await;
    let service = fixture.serve().await;
    fixture.subscribe("anna").await;
    fixture.server.until_at("data", 1).await;
    let stopping = tokio::spawn(service.stop());
    fixture.server.release("data").await;
    stopping.await.unwrap();
    let mail = fixture.mail_of("anna").await.unwrap();
    assert_eq!((mail.state, mail.attempts), (MailState::Delivered, 1));
    assert_eq!(fixture.server.mails().len(), 1);
}

#[tokio::test]
async fn nats_is_killed_while_a_mail_is_sent() {
    let mut fixture = MailFixture::start().await;
    fixture.server.at("data", "hold", 1).await;
    let service = fixture.serve().await;
    fixture.subscribe("anna").await;
    fixture.server.until_at("data", 1).await;
    fixture.nats.kill();
    fixture.server.release("data").await;
    fixture.nats.start_again();
    let mail = fixture.until_delivered("anna").await;
    let mails = fixture.server.mails();
    assert_eq!(mails.len(), usize::try_from(mail.attempts).unwrap());
    one_link_works(&service, &mails).await;
}

/// Its attempt is no longer the last one, so its link does not work, whether or not its mail still leaves.
#[tokio::test]
async fn a_replica_that_is_paused_in_the_middle_of_a_mail_leaves_one_working_link() {
    for stage in ["mail", "data"] {
        let mut fixture = MailFixture::with_short_timeout().await;
        fixture.server.at(stage, "hold", 1).await;
        let paused = fixture.serve().await;
        fixture.subscribe("anna").await;
        fixture.server.until_at(stage, 1).await;
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let second = fixture.serve_in(folders[0].path()).await;
        let third = fixture.serve_in(folders[1].path()).await;
        paused.pause();
        fixture.until_delivered("anna").await;
        // The mail server has gone on when it wakes up.
        fixture.server.release(stage).await;
        paused.resume();
        // Once it has stopped, it has finished what it was about to do.
        paused.stop().await;
        let mails = fixture.server.mails();
        assert!((1..=2).contains(&mails.len()), "{stage}: {}", mails.len());
        assert_eq!(fixture.attempts().await, 2, "{stage}");
        for replica in [&second, &third] {
            eventually("one link works", async || {
                let mut statuses = Vec::new();
                for mail in &mails {
                    statuses.push(link_status(replica, mail).await);
                }
                statuses.iter().filter(|status| **status == 200).count() == 1
            })
            .await;
        }
    }
}
