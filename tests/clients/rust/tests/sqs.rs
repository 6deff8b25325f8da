//! aws-sdk-sqs against a running server.
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::MessageSystemAttributeName as System;
use aws_sdk_sqs::types::QueueAttributeName as Setting;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, MessageAttributeValue, SendMessageBatchRequestEntry};
use penstock_clients::{arn, client, queue, receive, receive_one, system};
use std::collections::HashMap;
use std::time::Duration;

fn entry(id: &str, body: &str) -> SendMessageBatchRequestEntry {
    SendMessageBatchRequestEntry::builder().id(id).message_body(body).build().unwrap()
}

#[tokio::test]
async fn a_queue_is_created_and_found() {
    let sqs = client();
    let url = queue(&sqs, &[(Setting::VisibilityTimeout, "45")]).await;
    let name = url.rsplit('/').next().unwrap();
    assert_eq!(sqs.get_queue_url().queue_name(name).send().await.unwrap().queue_url(), Some(url.as_str()));
    let listed = sqs.list_queues().queue_name_prefix(name).send().await.unwrap();
    assert_eq!(listed.queue_urls(), [url.clone()]);
    sqs.tag_queue().queue_url(&url).tags("team", "water").send().await.unwrap();
    let tags = sqs.list_queue_tags().queue_url(&url).send().await.unwrap();
    assert_eq!(tags.tags().unwrap()["team"], "water");
    let all = sqs.get_queue_attributes().queue_url(&url).attribute_names(Setting::All).send().await.unwrap();
    assert_eq!(all.attributes().unwrap()[&Setting::VisibilityTimeout], "45");
    sqs.delete_queue().queue_url(&url).send().await.unwrap();
    assert!(sqs.list_queues().queue_name_prefix(name).send().await.unwrap().queue_urls().is_empty());
}

#[tokio::test]
async fn a_message_is_sent_received_and_deleted() {
    let sqs = client();
    let url = queue(&sqs, &[]).await;
    let body = "größer 水 🚰 <&>\n\t\"quoted\"";
    let sent = sqs.send_message().queue_url(&url).message_body(body).send().await.unwrap();
    let got = receive_one(&sqs, &url).await;
    assert_eq!(got.body(), Some(body));
    assert_eq!(got.message_id(), sent.message_id());
    assert_eq!(got.md5_of_body(), sent.md5_of_message_body());
    assert_eq!(system(&got, System::ApproximateReceiveCount), "1");
    sqs.delete_message().queue_url(&url).receipt_handle(got.receipt_handle().unwrap()).send().await.unwrap();
    assert!(receive(&sqs, &url, 1, 0).await.is_empty());
}

#[tokio::test]
async fn attributes_of_every_type_come_back() {
    let sqs = client();
    let url = queue(&sqs, &[]).await;
    let text = |kind: &str, value: &str| {
        MessageAttributeValue::builder().data_type(kind).string_value(value).build().unwrap()
    };
    let bytes = |kind: &str, value: &[u8]| {
        MessageAttributeValue::builder().data_type(kind).binary_value(Blob::new(value)).build().unwrap()
    };
    let attributes = HashMap::from([
        ("city".to_string(), text("String", "Zürich")),
        ("amount".to_string(), text("Number", "12.50")),
        ("money".to_string(), text("Number.chf", "7")),
        ("blob".to_string(), bytes("Binary", &[0, 255, 10, 127])),
        ("image".to_string(), bytes("Binary.gif", b"GIF89a")),
    ]);
    let call = sqs.send_message().queue_url(&url).message_body("x");
    let sent = call.set_message_attributes(Some(attributes.clone())).send().await.unwrap();
    let got = receive_one(&sqs, &url).await;
    assert_eq!(got.message_attributes(), Some(&attributes));
    assert_eq!(got.md5_of_message_attributes(), sent.md5_of_message_attributes());
}

#[tokio::test]
async fn a_batch_says_which_entries_failed() {
    let sqs = client();
    let url = queue(&sqs, &[]).await;
    let call = sqs.send_message_batch().queue_url(&url);
    let sent = call.entries(entry("good", "one")).entries(entry("bad", "\u{1}")).send().await.unwrap();
    assert_eq!(sent.successful().iter().map(|one| one.id()).collect::<Vec<_>>(), ["good"]);
    assert_eq!(sent.failed().len(), 1);
    assert_eq!((sent.failed()[0].id(), sent.failed()[0].code()), ("bad", "InvalidMessageContents"));
    assert!(sent.failed()[0].sender_fault());
    let got = receive_one(&sqs, &url).await;
    let delete = |id: &str, handle: &str| {
        DeleteMessageBatchRequestEntry::builder().id(id).receipt_handle(handle).build().unwrap()
    };
    let call = sqs.delete_message_batch().queue_url(&url);
    let call = call.entries(delete("good", got.receipt_handle().unwrap())).entries(delete("bad", "nonsense"));
    let deleted = call.send().await.unwrap();
    assert_eq!(deleted.successful()[0].id(), "good");
    assert_eq!(deleted.failed()[0].code(), "ReceiptHandleIsInvalid");
}

#[tokio::test]
async fn a_message_is_given_back_at_once() {
    let sqs = client();
    let url = queue(&sqs, &[]).await;
    sqs.send_message().queue_url(&url).message_body("again").send().await.unwrap();
    let first = receive_one(&sqs, &url).await;
    let call = sqs.change_message_visibility().queue_url(&url).visibility_timeout(0);
    call.receipt_handle(first.receipt_handle().unwrap()).send().await.unwrap();
    let second = receive_one(&sqs, &url).await;
    assert_eq!(first.message_id(), second.message_id());
    assert_eq!(system(&second, System::ApproximateReceiveCount), "2");
}

#[tokio::test]
async fn fifo_keeps_order_and_drops_duplicates() {
    let sqs = client();
    let url = queue(&sqs, &[(Setting::FifoQueue, "true")]).await;
    let send = |body: String| {
        let call = sqs.send_message().queue_url(&url).message_group_id("g");
        call.message_deduplication_id(body.clone()).message_body(body).send()
    };
    for place in 0..5 {
        send(format!("m{place}")).await.unwrap();
    }
    let again = send("m0".to_string()).await.unwrap();
    let got = receive(&sqs, &url, 10, 10).await;
    let bodies: Vec<_> = got.iter().map(|message| message.body().unwrap()).collect();
    assert_eq!(bodies, ["m0", "m1", "m2", "m3", "m4"]);
    assert_eq!(got[0].message_id(), again.message_id());
    let numbers: Vec<u128> =
        got.iter().map(|message| system(message, System::SequenceNumber).parse().unwrap()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(again.sequence_number().unwrap().parse::<u128>().unwrap(), numbers[0]);
}

#[tokio::test]
async fn dead_letters_move_and_come_back() {
    let sqs = client();
    let dead = queue(&sqs, &[]).await;
    let source = arn(&sqs, &dead).await;
    let policy = format!(r#"{{"deadLetterTargetArn":"{source}","maxReceiveCount":1}}"#);
    let url = queue(&sqs, &[(Setting::RedrivePolicy, &policy), (Setting::VisibilityTimeout, "0")]).await;
    sqs.send_message().queue_url(&url).message_body("poison").send().await.unwrap();
    receive_one(&sqs, &url).await;
    assert!(receive(&sqs, &url, 1, 0).await.is_empty());
    let sources = sqs.list_dead_letter_source_queues().queue_url(&dead).send().await.unwrap();
    assert_eq!(sources.queue_urls(), [url.clone()]);
    let letter = receive_one(&sqs, &dead).await;
    assert_eq!(system(&letter, System::DeadLetterQueueSourceArn), arn(&sqs, &url).await);
    let call = sqs.change_message_visibility().queue_url(&dead).visibility_timeout(0);
    call.receipt_handle(letter.receipt_handle().unwrap()).send().await.unwrap();

    sqs.start_message_move_task().source_arn(&source).send().await.unwrap();
    assert_eq!(receive_one(&sqs, &url).await.body(), Some("poison"));
    let mut status = String::new();
    for _ in 0..100 {
        let tasks = sqs.list_message_move_tasks().source_arn(&source).send().await.unwrap();
        status = tasks.results()[0].status().unwrap().to_string();
        if status == "COMPLETED" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(status, "COMPLETED");
}

#[tokio::test]
async fn errors_have_their_types() {
    let sqs = client();
    let url = queue(&sqs, &[]).await;
    let missing = sqs.get_queue_url().queue_name("nowhere").send().await.unwrap_err().into_service_error();
    assert!(missing.is_queue_does_not_exist(), "{missing:?}");
    let name = url.rsplit('/').next().unwrap();
    let call = sqs.create_queue().queue_name(name).attributes(Setting::VisibilityTimeout, "7");
    let taken = call.send().await.unwrap_err().into_service_error();
    assert!(taken.is_queue_name_exists(), "{taken:?}");
    let call = sqs.delete_message().queue_url(&url).receipt_handle("nonsense");
    let handle = call.send().await.unwrap_err().into_service_error();
    assert!(handle.is_receipt_handle_is_invalid(), "{handle:?}");
    let call = sqs.send_message_batch().queue_url(&url).set_entries(Some(Vec::new()));
    let empty = call.send().await.unwrap_err().into_service_error();
    assert!(empty.is_empty_batch_request(), "{empty:?}");
    let call = sqs.start_message_move_task().source_arn("arn:aws:sqs:us-east-1:400000000004:nowhere");
    let task = call.send().await.unwrap_err().into_service_error();
    assert!(task.is_resource_not_found_exception(), "{task:?}");
    let call = sqs.send_message().queue_url(&url).message_body("x").delay_seconds(901);
    let delay = call.send().await.unwrap_err().into_service_error();
    assert_eq!(delay.code(), Some("InvalidParameterValue"), "{delay:?}");
}
