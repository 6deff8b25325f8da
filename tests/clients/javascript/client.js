// What the suites share: clients of the server under test, and queues with names of their own.
import { randomUUID } from "node:crypto";
import { SQS } from "@aws-sdk/client-sqs";

export const reach = {
  endpoint: process.env.SQS_ENDPOINT,
  region: "us-east-1",
  credentials: { accessKeyId: "400000000003", secretAccessKey: "any" },
  maxAttempts: 1,
};

export const newClient = () => new SQS(reach);

export const arnOf = async (sqs, QueueUrl) =>
  (await sqs.getQueueAttributes({ QueueUrl, AttributeNames: ["QueueArn"] })).Attributes.QueueArn;

export async function newQueue(sqs, Attributes = {}) {
  const QueueName = `js-${randomUUID()}${Attributes.FifoQueue ? ".fifo" : ""}`;
  return (await sqs.createQueue({ QueueName, Attributes })).QueueUrl;
}

export async function receive(sqs, QueueUrl, MaxNumberOfMessages = 1, WaitTimeSeconds = 10) {
  const answer = await sqs.receiveMessage({
    QueueUrl,
    MaxNumberOfMessages,
    WaitTimeSeconds,
    MessageAttributeNames: ["All"],
    MessageSystemAttributeNames: ["All"],
  });
  return answer.Messages ?? [];
}
