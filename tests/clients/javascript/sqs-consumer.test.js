// sqs-consumer: handlers, batches, the heartbeat that keeps a message hidden, and what it does with errors.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Consumer } from "sqs-consumer";
import { newClient, newQueue, receive } from "./client.js";

const sqs = newClient();
after(() => sqs.destroy());

const consume = (queueUrl, options) => Consumer.create({ queueUrl, sqs, waitTimeSeconds: 5, ...options });

async function stopped(consumer) {
  consumer.on("error", () => {}); // the poll that is cut short
  const stop = once(consumer, "stopped");
  consumer.stop({ abort: true });
  await stop;
}

test("every message is handled and deleted", async () => {
  const queueUrl = await newQueue(sqs);
  const sent = Array.from({ length: 25 }, (_, n) => `m${n}`);
  for (const MessageBody of sent) await sqs.sendMessage({ QueueUrl: queueUrl, MessageBody });
  const handled = [];
  const done = deferred();
  const consumer = consume(queueUrl, {
    batchSize: 10,
    handleMessage: async (message) => {
      handled.push(message.Body);
      if (handled.length === sent.length) done.resolve();
      return message;
    },
  });
  consumer.start();
  await done.promise;
  await sleep(200); // the deletes of the last batch
  await stopped(consumer);
  assert.deepEqual(handled.sort(), sent.sort());
  const { Attributes } = await sqs.getQueueAttributes({ QueueUrl: queueUrl, AttributeNames: ["All"] });
  assert.equal(Attributes.ApproximateNumberOfMessages, "0");
  assert.equal(Attributes.ApproximateNumberOfMessagesNotVisible, "0");
});

test("the heartbeat keeps a message hidden while it is worked on", async () => {
  const queueUrl = await newQueue(sqs);
  await sqs.sendMessage({ QueueUrl: queueUrl, MessageBody: "slow" });
  const counts = [];
  const consumer = consume(queueUrl, {
    visibilityTimeout: 2,
    heartbeatInterval: 1,
    messageSystemAttributeNames: ["ApproximateReceiveCount"],
    handleMessage: async (message) => {
      counts.push(message.Attributes.ApproximateReceiveCount);
      await sleep(4_500);
      return message;
    },
  });
  const processed = once(consumer, "message_processed");
  consumer.start();
  await once(consumer, "message_received");
  assert.deepEqual(await receive(sqs, queueUrl, 1, 4), [], "hidden beyond its two seconds");
  await processed;
  await sleep(200);
  await stopped(consumer);
  assert.deepEqual(counts, ["1"]);
  assert.deepEqual(await receive(sqs, queueUrl, 1, 0), []);
});

test("the heartbeat of a batch keeps all of it hidden", async () => {
  const queueUrl = await newQueue(sqs);
  for (const MessageBody of ["a", "b", "c"]) await sqs.sendMessage({ QueueUrl: queueUrl, MessageBody });
  const batches = [];
  const consumer = consume(queueUrl, {
    batchSize: 10,
    visibilityTimeout: 2,
    heartbeatInterval: 1,
    handleMessageBatch: async (messages) => {
      batches.push(messages.map((message) => message.Body).sort());
      await sleep(3_500);
      return messages;
    },
  });
  const processed = once(consumer, "response_processed");
  consumer.start();
  await processed;
  await stopped(consumer);
  assert.deepEqual(batches, [["a", "b", "c"]]);
  assert.deepEqual(await receive(sqs, queueUrl, 1, 0), []);
});

test("a failed message comes back at once", async () => {
  const queueUrl = await newQueue(sqs);
  await sqs.sendMessage({ QueueUrl: queueUrl, MessageBody: "twice" });
  let tries = 0;
  const done = deferred();
  const consumer = consume(queueUrl, {
    terminateVisibilityTimeout: true,
    handleMessage: async (message) => {
      tries += 1;
      if (tries === 1) throw new Error("the first try fails");
      done.resolve();
      return message;
    },
  });
  const failed = once(consumer, "processing_error");
  consumer.on("error", () => {});
  consumer.start();
  await failed;
  await done.promise;
  await sleep(200);
  await stopped(consumer);
  assert.equal(tries, 2);
});

test("a queue that is missing is an error, not an end", async () => {
  const consumer = consume(`${process.env.SQS_ENDPOINT}/400000000003/nowhere`, { handleMessage: async () => {} });
  const failed = once(consumer, "error");
  consumer.start();
  const [error] = await failed;
  await stopped(consumer);
  assert.match(error.message, /does not exist/);
});

function deferred() {
  const made = {};
  made.promise = new Promise((resolve) => {
    made.resolve = resolve;
  });
  return made;
}
