//! A client of the server under test, and queues with names of their own.
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName, QueueAttributeName};
use aws_sdk_sqs::{Client, Config};
use std::time::{SystemTime, UNIX_EPOCH};

pub fn client() -> Client {
    Client::from_conf(
        Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url(std::env::var("SQS_ENDPOINT").expect("SQS_ENDPOINT is set"))
            .credentials_provider(Credentials::new("400000000004", "any", None, None, "test"))
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .build(),
    )
}

pub async fn queue(sqs: &Client, attributes: &[(QueueAttributeName, &str)]) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let fifo = attributes.iter().any(|(name, _)| *name == QueueAttributeName::FifoQueue);
    let mut call = sqs.create_queue().queue_name(format!("rust-{now}{}", if fifo { ".fifo" } else { "" }));
    for (name, value) in attributes {
        call = call.attributes(name.clone(), *value);
    }
    call.send().await.unwrap().queue_url.unwrap()
}

pub async fn arn(sqs: &Client, url: &str) -> String {
    let name = QueueAttributeName::QueueArn;
    let answer = sqs.get_queue_attributes().queue_url(url).attribute_names(name.clone()).send().await.unwrap();
    answer.attributes.unwrap()[&name].clone()
}

pub async fn receive(sqs: &Client, url: &str, most: i32, wait: i32) -> Vec<Message> {
    sqs.receive_message()
        .queue_url(url)
        .max_number_of_messages(most)
        .wait_time_seconds(wait)
        .message_attribute_names("All")
        .message_system_attribute_names(MessageSystemAttributeName::All)
        .send()
        .await
        .unwrap()
        .messages
        .unwrap_or_default()
}

pub async fn receive_one(sqs: &Client, url: &str) -> Message {
    let mut messages = receive(sqs, url, 1, 10).await;
    assert_eq!(messages.len(), 1);
    messages.remove(0)
}

pub fn system(message: &Message, name: MessageSystemAttributeName) -> String {
    message.attributes.as_ref().unwrap()[&name].clone()
}
