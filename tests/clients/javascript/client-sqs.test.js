// @aws-sdk/client-sqs checks the MD5 of every body itself, on send and on receive.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import * as model from "@aws-sdk/client-sqs";
import { arnOf, newClient, newQueue, receive } from "./client.js";

const sqs = newClient();
after(() => sqs.destroy());

test("a queue is created and found", async () => {
  const QueueUrl = await newQueue(sqs, { VisibilityTimeout: "45" });
  const QueueName = QueueUrl.split("/").at(-1);
  assert.equal((await sqs.getQueueUrl({ QueueName })).QueueUrl, QueueUrl);
  assert.deepEqual((await sqs.listQueues({ QueueNamePrefix: QueueName })).QueueUrls, [QueueUrl]);
  await sqs.tagQueue({ QueueUrl, Tags: { team: "water" } });
  assert.deepEqual((await sqs.listQueueTags({ QueueUrl })).Tags, { team: "water" });
  const { Attributes } = await sqs.getQueueAttributes({ QueueUrl, AttributeNames: ["All"] });
  assert.equal(Attributes.VisibilityTimeout, "45");
  await sqs.deleteQueue({ QueueUrl });
  assert.equal((await sqs.listQueues({ QueueNamePrefix: QueueName })).QueueUrls, undefined);
});

test("queues are listed by pages", async () => {
  const QueueNamePrefix = `js-${randomUUID()}`;
  for (const n of [1, 2, 3]) await sqs.createQueue({ QueueName: `${QueueNamePrefix}-${n}` });
  const sizes = [];
  for await (const page of model.paginateListQueues({ client: sqs, pageSize: 2 }, { QueueNamePrefix })) {
    sizes.push(page.QueueUrls.length);
  }
  assert.deepEqual(sizes, [2, 1]);
});

test("a message is sent, received and deleted", async () => {
  const QueueUrl = await newQueue(sqs);
  const MessageBody = 'größer 水 🚰 <&>\n\t"quoted"';
  const { MessageId } = await sqs.sendMessage({ QueueUrl, MessageBody });
  const [got] = await receive(sqs, QueueUrl);
  assert.equal(got.Body, MessageBody);
  assert.equal(got.MessageId, MessageId);
  assert.equal(got.Attributes.ApproximateReceiveCount, "1");
  await sqs.deleteMessage({ QueueUrl, ReceiptHandle: got.ReceiptHandle });
  assert.deepEqual(await receive(sqs, QueueUrl, 1, 0), []);
});

test("attributes of every type come back", async () => {
  const QueueUrl = await newQueue(sqs);
  const MessageAttributes = {
    city: { DataType: "String", StringValue: "Zürich" },
    amount: { DataType: "Number", StringValue: "12.50" },
    money: { DataType: "Number.chf", StringValue: "7" },
    blob: { DataType: "Binary", BinaryValue: Uint8Array.of(0, 255, 10, 127) },
    image: { DataType: "Binary.gif", BinaryValue: new TextEncoder().encode("GIF89a") },
  };
  await sqs.sendMessage({ QueueUrl, MessageBody: "x", MessageAttributes });
  const [got] = await receive(sqs, QueueUrl);
  assert.deepEqual(Object.keys(got.MessageAttributes).sort(), Object.keys(MessageAttributes).sort());
  for (const [name, sent] of Object.entries(MessageAttributes)) {
    const back = got.MessageAttributes[name];
    assert.equal(back.DataType, sent.DataType);
    assert.equal(back.StringValue, sent.StringValue);
    assert.deepEqual(back.BinaryValue && [...back.BinaryValue], sent.BinaryValue && [...sent.BinaryValue]);
  }
});

test("a batch says which entries failed", async () => {
  const QueueUrl = await newQueue(sqs);
  const sent = await sqs.sendMessageBatch({
    QueueUrl,
    Entries: [
      { Id: "good", MessageBody: "one" },
      { Id: "bad", MessageBody: "\u0001" },
    ],
  });
  assert.deepEqual(sent.Successful.map((entry) => entry.Id), ["good"]);
  assert.deepEqual(sent.Failed.map((entry) => [entry.Id, entry.Code, entry.SenderFault]), [
    ["bad", "InvalidMessageContents", true],
  ]);
  const [got] = await receive(sqs, QueueUrl);
  const deleted = await sqs.deleteMessageBatch({
    QueueUrl,
    Entries: [
      { Id: "good", ReceiptHandle: got.ReceiptHandle },
      { Id: "bad", ReceiptHandle: "nonsense" },
    ],
  });
  assert.deepEqual(deleted.Successful, [{ Id: "good" }]);
  assert.equal(deleted.Failed[0].Code, "ReceiptHandleIsInvalid");
});

test("a message is given back at once", async () => {
  const QueueUrl = await newQueue(sqs);
  await sqs.sendMessage({ QueueUrl, MessageBody: "again" });
  const [first] = await receive(sqs, QueueUrl);
  await sqs.changeMessageVisibility({ QueueUrl, ReceiptHandle: first.ReceiptHandle, VisibilityTimeout: 0 });
  const [second] = await receive(sqs, QueueUrl);
  assert.equal(second.MessageId, first.MessageId);
  assert.equal(second.Attributes.ApproximateReceiveCount, "2");
});

test("an aborted long poll swallows nothing", async () => {
  const QueueUrl = await newQueue(sqs);
  const abort = new AbortController();
  const poll = sqs.receiveMessage({ QueueUrl, WaitTimeSeconds: 20 }, { abortSignal: abort.signal });
  await sleep(200); // let the poll reach the server
  abort.abort();
  await assert.rejects(poll, { name: "AbortError" });
  await sqs.sendMessage({ QueueUrl, MessageBody: "for the next one" });
  const [got] = await receive(sqs, QueueUrl);
  assert.equal(got.Body, "for the next one");
  assert.equal(got.Attributes.ApproximateReceiveCount, "1");
});

test("FIFO keeps order and drops duplicates", async () => {
  const QueueUrl = await newQueue(sqs, { FifoQueue: "true" });
  const send = (body) =>
    sqs.sendMessage({ QueueUrl, MessageBody: body, MessageGroupId: "g", MessageDeduplicationId: body });
  const bodies = ["m0", "m1", "m2", "m3", "m4"];
  for (const body of bodies) await send(body);
  const again = await send("m0");
  const got = await receive(sqs, QueueUrl, 10);
  assert.deepEqual(got.map((message) => message.Body), bodies);
  assert.equal(got[0].MessageId, again.MessageId);
  assert.equal(got[0].Attributes.SequenceNumber, again.SequenceNumber);
  const numbers = got.map((message) => BigInt(message.Attributes.SequenceNumber));
  assert.ok(numbers.every((number, place) => place === 0 || number > numbers[place - 1]));
});

test("dead letters move and come back", async () => {
  const dead = await newQueue(sqs);
  const SourceArn = await arnOf(sqs, dead);
  const QueueUrl = await newQueue(sqs, {
    VisibilityTimeout: "0",
    RedrivePolicy: JSON.stringify({ deadLetterTargetArn: SourceArn, maxReceiveCount: 1 }),
  });
  await sqs.sendMessage({ QueueUrl, MessageBody: "poison" });
  await receive(sqs, QueueUrl);
  assert.deepEqual(await receive(sqs, QueueUrl, 1, 0), []);
  assert.deepEqual((await sqs.listDeadLetterSourceQueues({ QueueUrl: dead })).queueUrls, [QueueUrl]);
  const [letter] = await receive(sqs, dead);
  assert.equal(letter.Attributes.DeadLetterQueueSourceArn, await arnOf(sqs, QueueUrl));
  await sqs.changeMessageVisibility({ QueueUrl: dead, ReceiptHandle: letter.ReceiptHandle, VisibilityTimeout: 0 });

  assert.ok((await sqs.startMessageMoveTask({ SourceArn })).TaskHandle);
  const [back] = await receive(sqs, QueueUrl);
  assert.equal(back.Body, "poison");
  let status;
  for (let tries = 0; tries < 100 && status !== "COMPLETED"; tries += 1) {
    await sleep(50);
    status = (await sqs.listMessageMoveTasks({ SourceArn })).Results[0].Status;
  }
  assert.equal(status, "COMPLETED");
});

test("errors have their types", async () => {
  const QueueUrl = await newQueue(sqs);
  const QueueName = QueueUrl.split("/").at(-1);
  const Entries = [1, 2].map((n) => ({ Id: "same", MessageBody: `${n}` }));
  const SourceArn = "arn:aws:sqs:us-east-1:400000000003:nowhere";
  for (const [kind, status, call] of [
    [model.QueueDoesNotExist, 400, () => sqs.getQueueUrl({ QueueName: "nowhere" })],
    [model.QueueNameExists, 400, () => sqs.createQueue({ QueueName, Attributes: { VisibilityTimeout: "7" } })],
    [model.ReceiptHandleIsInvalid, 404, () => sqs.deleteMessage({ QueueUrl, ReceiptHandle: "nonsense" })],
    [model.EmptyBatchRequest, 400, () => sqs.sendMessageBatch({ QueueUrl, Entries: [] })],
    [model.BatchEntryIdsNotDistinct, 400, () => sqs.sendMessageBatch({ QueueUrl, Entries })],
    [model.ResourceNotFoundException, 404, () => sqs.startMessageMoveTask({ SourceArn })],
  ]) {
    await assert.rejects(call, (error) => {
      assert.ok(error instanceof kind, `${error.name} instead of ${kind.name}`);
      assert.equal(error.$metadata.httpStatusCode, status);
      return true;
    });
  }
  await assert.rejects(sqs.sendMessage({ QueueUrl, MessageBody: "x", DelaySeconds: 901 }), {
    name: "InvalidParameterValue",
  });
});
