// @aws-sdk/client-sns: topics, and the queues that are subscribed to them.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test } from "node:test";
import * as model from "@aws-sdk/client-sns";
import { arnOf, newClient, newQueue, receive, reach } from "./client.js";

const sns = new model.SNS(reach);
const sqs = newClient();
after(() => {
  sns.destroy();
  sqs.destroy();
});

async function newTopic(Attributes = {}) {
  const Name = `js-${randomUUID()}${Attributes.FifoTopic ? ".fifo" : ""}`;
  return (await sns.createTopic({ Name, Attributes })).TopicArn;
}

async function subscribe(TopicArn, Attributes = {}) {
  const QueueUrl = await newQueue(sqs, TopicArn.endsWith(".fifo") ? { FifoQueue: "true" } : {});
  const Endpoint = await arnOf(sqs, QueueUrl);
  const { SubscriptionArn } = await sns.subscribe({ TopicArn, Protocol: "sqs", Endpoint, Attributes });
  return { QueueUrl, Endpoint, SubscriptionArn };
}

// Messages arrive soon after they were published, and not all at once.
async function receiveAll(QueueUrl, count) {
  const got = [];
  while (got.length < count) {
    const more = await receive(sqs, QueueUrl, 10);
    assert.ok(more.length > 0, `${got.length} of ${count} messages`);
    got.push(...more);
    for (const { ReceiptHandle } of more) await sqs.deleteMessage({ QueueUrl, ReceiptHandle });
  }
  return got;
}

const text = (StringValue) => ({ DataType: "String", StringValue });

test("a topic is created, found and changed", async () => {
  const TopicArn = await newTopic({ DisplayName: "Größe" });
  assert.equal((await sns.createTopic({ Name: TopicArn.split(":").at(-1) })).TopicArn, TopicArn);
  await sns.setTopicAttributes({ TopicArn, AttributeName: "DisplayName", AttributeValue: "Wasser" });
  const { Attributes } = await sns.getTopicAttributes({ TopicArn });
  assert.equal(Attributes.DisplayName, "Wasser");
  assert.equal(JSON.parse(Attributes.Policy).Statement[0].Resource, TopicArn);
  await sns.tagResource({ ResourceArn: TopicArn, Tags: [{ Key: "team", Value: "water" }] });
  assert.deepEqual((await sns.listTagsForResource({ ResourceArn: TopicArn })).Tags, [{ Key: "team", Value: "water" }]);
  await sns.deleteTopic({ TopicArn });
  await assert.rejects(sns.getTopicAttributes({ TopicArn }), model.NotFoundException);
});

test("topics are listed by pages", async () => {
  const made = await Promise.all(Array.from({ length: 101 }, () => newTopic()));
  const listed = [];
  let pages = 0;
  for await (const page of model.paginateListTopics({ client: sns }, {})) {
    listed.push(...page.Topics.map((topic) => topic.TopicArn));
    pages += 1;
  }
  assert.ok(pages >= 2);
  assert.equal(new Set(listed).size, listed.length);
  assert.deepEqual(made.filter((arn) => !listed.includes(arn)), []);
});

test("a queue gets what its filter lets through", async () => {
  const TopicArn = await newTopic();
  const { QueueUrl, SubscriptionArn, Endpoint } = await subscribe(TopicArn, {
    FilterPolicy: JSON.stringify({ city: ["Zürich"], amount: [{ numeric: [">", 10] }] }),
  });
  const raw = await subscribe(TopicArn, { RawMessageDelivery: "true" });
  const Message = 'größer 水 🚰 <&>\n\t"quoted"';
  const MessageAttributes = {
    city: text("Zürich"),
    amount: { DataType: "Number", StringValue: "12.50" },
    blob: { DataType: "Binary", BinaryValue: Uint8Array.of(0, 255, 10, 127) },
  };
  await sns.publish({ TopicArn, Message: "no attributes" });
  const { MessageId } = await sns.publish({ TopicArn, Message, Subject: "Öl", MessageAttributes });

  const [got] = await receiveAll(QueueUrl, 1);
  const envelope = JSON.parse(got.Body);
  assert.deepEqual([envelope.Message, envelope.MessageId, envelope.Subject], [Message, MessageId, "Öl"]);
  assert.deepEqual(envelope.MessageAttributes.blob, { Type: "Binary", Value: "AP8Kfw==" });

  // The SDK checks the MD5 of bodies and attributes.
  const plain = await receiveAll(raw.QueueUrl, 2);
  const { MessageAttributes: back } = plain.find((message) => message.Body === Message);
  assert.deepEqual(Object.keys(back).sort(), ["amount", "blob", "city"]);
  assert.deepEqual([...back.blob.BinaryValue], [0, 255, 10, 127]);

  const listed = (await sns.listSubscriptionsByTopic({ TopicArn })).Subscriptions;
  assert.deepEqual(listed.map((each) => each.Endpoint).sort(), [Endpoint, raw.Endpoint].sort());
  await sns.unsubscribe({ SubscriptionArn });
  await assert.rejects(sns.getSubscriptionAttributes({ SubscriptionArn }), model.NotFoundException);
});

test("a batch says which entries failed", async () => {
  const TopicArn = await newTopic();
  const { QueueUrl } = await subscribe(TopicArn, { RawMessageDelivery: "true" });
  const sent = await sns.publishBatch({
    TopicArn,
    PublishBatchRequestEntries: [
      { Id: "good", Message: "one", MessageAttributes: { city: text("Zürich") } },
      { Id: "bad", Message: "two", Subject: "two\nlines" },
    ],
  });
  assert.deepEqual(sent.Successful.map((entry) => entry.Id), ["good"]);
  assert.deepEqual(sent.Failed.map((entry) => [entry.Id, entry.Code, entry.SenderFault]), [
    ["bad", "InvalidParameter", true],
  ]);
  const [got] = await receiveAll(QueueUrl, 1);
  assert.equal(got.Body, "one");
  assert.equal(got.MessageAttributes.city.StringValue, "Zürich");
});

test("FIFO keeps order and drops duplicates", async () => {
  const TopicArn = await newTopic({ FifoTopic: "true", ContentBasedDeduplication: "true" });
  const { QueueUrl } = await subscribe(TopicArn, { RawMessageDelivery: "true" });
  const bodies = ["m0", "m1", "m2", "m3", "m4"];
  const sent = [];
  for (const Message of [...bodies, "m0"]) {
    sent.push(await sns.publish({ TopicArn, Message, MessageGroupId: "g" }));
  }
  assert.equal(sent[5].MessageId, sent[0].MessageId);
  assert.equal(sent[5].SequenceNumber, sent[0].SequenceNumber);
  const numbers = sent.slice(0, 5).map((each) => BigInt(each.SequenceNumber));
  assert.ok(numbers.every((number, place) => place === 0 || number > numbers[place - 1]));
  const got = await receiveAll(QueueUrl, 5);
  assert.deepEqual(got.map((message) => message.Body), bodies);
  assert.deepEqual(await receive(sqs, QueueUrl, 1, 1), []);
});

test("errors have their types", async () => {
  const TopicArn = await newTopic();
  const nowhere = `${TopicArn}-nowhere`;
  const same = [1, 2].map((n) => ({ Id: "same", Message: `${n}` }));
  const many = Array.from({ length: 11 }, (_, n) => ({ Id: `${n}`, Message: "x" }));
  const notANumber = { n: { DataType: "Number", StringValue: "one" } };
  for (const [kind, status, call] of [
    [model.NotFoundException, 404, () => sns.publish({ TopicArn: nowhere, Message: "x" })],
    [model.InvalidParameterException, 400, () => sns.createTopic({ Name: "not a name" })],
    [model.InvalidParameterException, 400, () => sns.publish({ TopicArn, Message: "" })],
    [
      model.InvalidParameterValueException,
      400,
      () => sns.publish({ TopicArn, Message: "x", MessageAttributes: notANumber }),
    ],
    [
      model.BatchEntryIdsNotDistinctException,
      400,
      () => sns.publishBatch({ TopicArn, PublishBatchRequestEntries: same }),
    ],
    [
      model.TooManyEntriesInBatchRequestException,
      400,
      () => sns.publishBatch({ TopicArn, PublishBatchRequestEntries: many }),
    ],
    [model.ResourceNotFoundException, 404, () => sns.listTagsForResource({ ResourceArn: nowhere })],
  ]) {
    await assert.rejects(call, (error) => {
      assert.ok(error instanceof kind, `${error.name} instead of ${kind.name}`);
      assert.equal(error.$metadata.httpStatusCode, status);
      return true;
    });
  }
});
