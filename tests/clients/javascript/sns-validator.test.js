// sns-validator, the library of AWS that checks where messages come from. It fetches the certificate over HTTPS only.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { SNS } from "@aws-sdk/client-sns";
import MessageValidator from "sns-validator";
import { arnOf, newClient, newQueue, reach, receive } from "./client.js";

const sns = new SNS(reach);
const sqs = newClient();
const validator = new MessageValidator(/^127\.0\.0\.1:\d+$/);
const validate = promisify(validator.validate.bind(validator));
const posted = [];
const endpoint = createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    posted.push({ type: request.headers["x-amz-sns-message-type"], message: Buffer.concat(parts).toString() });
    response.end();
    endpoint.emit("posted");
  });
});
endpoint.listen(0, "127.0.0.1");
await once(endpoint, "listening");
after(() => {
  sns.destroy();
  sqs.destroy();
  endpoint.close();
});

async function newTopic(name, SignatureVersion) {
  const { TopicArn } = await sns.createTopic({ Name: `js-${name}-${SignatureVersion}` });
  await sns.setTopicAttributes({ TopicArn, AttributeName: "SignatureVersion", AttributeValue: SignatureVersion });
  return TopicArn;
}

async function nextPost(type) {
  while (posted.length === 0) await once(endpoint, "posted");
  const { type: header, message } = posted.shift();
  assert.equal(header, type);
  return JSON.parse(message);
}

for (const version of ["1", "2"]) {
  test(`messages in queues are genuine, version ${version}`, async () => {
    const TopicArn = await newTopic("queues", version);
    const QueueUrl = await newQueue(sqs);
    await sns.subscribe({ TopicArn, Protocol: "sqs", Endpoint: await arnOf(sqs, QueueUrl) });
    for (const Subject of [undefined, "Öl & 水"]) {
      await sns.publish({ TopicArn, Subject, Message: 'größer 水 🚰 <&>\n\t"quoted"' });
      const [got] = await receive(sqs, QueueUrl);
      const message = await validate(got.Body);
      assert.equal(message.SignatureVersion, version);
      await assert.rejects(validate({ ...message, Message: "forged" }), /signature is invalid/);
      await assert.rejects(validate({ ...message, Subject: "forged" }), /signature is invalid/);
    }
  });

  test(`posts are genuine, version ${version}`, async () => {
    const TopicArn = await newTopic("posts", version);
    const Endpoint = `http://127.0.0.1:${endpoint.address().port}/${version}`;
    const { SubscriptionArn } = await sns.subscribe({ TopicArn, Protocol: "http", Endpoint });
    assert.equal(SubscriptionArn, "pending confirmation");
    const asked = await validate(await nextPost("SubscriptionConfirmation"));
    const confirmed = await fetch(asked.SubscribeURL);
    assert.equal(confirmed.status, 200);
    const MessageAttributes = { city: { DataType: "String", StringValue: "Zürich" } };
    const { MessageId } = await sns.publish({ TopicArn, Message: "hello", Subject: "s", MessageAttributes });
    const message = await validate(await nextPost("Notification"));
    assert.deepEqual([message.MessageId, message.Message, message.Subject], [MessageId, "hello", "s"]);
    await assert.rejects(validate({ ...message, TopicArn: `${TopicArn}-other` }), /signature is invalid/);
  });
}
