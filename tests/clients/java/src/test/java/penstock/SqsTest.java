package penstock;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.net.URI;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.BatchEntryIdsNotDistinctException;
import software.amazon.awssdk.services.sqs.model.EmptyBatchRequestException;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.MessageAttributeValue;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueDoesNotExistException;
import software.amazon.awssdk.services.sqs.model.QueueNameExistsException;
import software.amazon.awssdk.services.sqs.model.ReceiptHandleIsInvalidException;
import software.amazon.awssdk.services.sqs.model.ResourceNotFoundException;
import software.amazon.awssdk.services.sqs.model.SendMessageBatchRequestEntry;
import software.amazon.awssdk.services.sqs.model.SqsException;

/** The SDK checks the MD5 of every body and of all attributes itself, on send and on receive. */
class SqsTest {
  private static final SqsClient SQS =
      SqsClient.builder()
          .endpointOverride(URI.create(System.getenv("SQS_ENDPOINT")))
          .region(Region.US_EAST_1)
          .credentialsProvider(
              StaticCredentialsProvider.create(AwsBasicCredentials.create("400000000001", "any")))
          .httpClientBuilder(UrlConnectionHttpClient.builder())
          .checksumValidationEnabled(true)
          .build();

  @AfterAll
  static void close() {
    SQS.close();
  }

  private static String queue(Map<QueueAttributeName, String> attributes) {
    boolean fifo = attributes.containsKey(QueueAttributeName.FIFO_QUEUE);
    String name = "java-" + UUID.randomUUID() + (fifo ? ".fifo" : "");
    return SQS.createQueue(r -> r.queueName(name).attributes(attributes)).queueUrl();
  }

  private static String queue() {
    return queue(Map.of());
  }

  private static String fifo() {
    return queue(Map.of(QueueAttributeName.FIFO_QUEUE, "true"));
  }

  private static String arn(String url) {
    return SQS.getQueueAttributes(
            r -> r.queueUrl(url).attributeNames(QueueAttributeName.QUEUE_ARN))
        .attributes()
        .get(QueueAttributeName.QUEUE_ARN);
  }

  private static List<Message> receive(String url, int max, int wait) {
    return SQS.receiveMessage(
            r ->
                r.queueUrl(url)
                    .maxNumberOfMessages(max)
                    .waitTimeSeconds(wait)
                    .messageAttributeNames("All")
                    .messageSystemAttributeNames(MessageSystemAttributeName.ALL))
        .messages();
  }

  private static Message one(String url) {
    List<Message> messages = receive(url, 1, 10);
    assertEquals(1, messages.size());
    return messages.get(0);
  }

  @Test
  void createsAndFindsAQueue() {
    String url =
        queue(
            Map.of(
                QueueAttributeName.VISIBILITY_TIMEOUT, "45", QueueAttributeName.DELAY_SECONDS, "0"));
    String name = url.substring(url.lastIndexOf('/') + 1);
    assertEquals(url, SQS.getQueueUrl(r -> r.queueName(name)).queueUrl());
    assertEquals(List.of(url), SQS.listQueues(r -> r.queueNamePrefix(name)).queueUrls());
    SQS.tagQueue(r -> r.queueUrl(url).tags(Map.of("team", "water")));
    assertEquals(Map.of("team", "water"), SQS.listQueueTags(r -> r.queueUrl(url)).tags());
    var all =
        SQS.getQueueAttributes(r -> r.queueUrl(url).attributeNames(QueueAttributeName.ALL))
            .attributes();
    assertEquals("45", all.get(QueueAttributeName.VISIBILITY_TIMEOUT));
    SQS.deleteQueue(r -> r.queueUrl(url));
    assertTrue(SQS.listQueues(r -> r.queueNamePrefix(name)).queueUrls().isEmpty());
  }

  @Test
  void sendsReceivesAndDeletes() {
    String url = queue();
    String body = "größer 水 \uD83D\uDEB0 <&>\n\t\"quoted\"";
    String id = SQS.sendMessage(r -> r.queueUrl(url).messageBody(body)).messageId();
    Message got = one(url);
    assertEquals(body, got.body());
    assertEquals(id, got.messageId());
    assertEquals("1", got.attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT));
    long sent = Long.parseLong(got.attributes().get(MessageSystemAttributeName.SENT_TIMESTAMP));
    assertTrue(Math.abs(Instant.now().toEpochMilli() - sent) < 60_000);
    SQS.deleteMessage(r -> r.queueUrl(url).receiptHandle(got.receiptHandle()));
    assertTrue(receive(url, 1, 0).isEmpty());
  }

  @Test
  void keepsAttributesOfEveryType() {
    String url = queue();
    byte[] bytes = {0, -1, 10, 127};
    Map<String, MessageAttributeValue> attributes =
        Map.of(
            "city", text("String", "Zürich"),
            "amount", text("Number", "12.50"),
            "money", text("Number.chf", "7"),
            "blob",
                MessageAttributeValue.builder()
                    .dataType("Binary")
                    .binaryValue(SdkBytes.fromByteArray(bytes))
                    .build(),
            "image",
                MessageAttributeValue.builder()
                    .dataType("Binary.gif")
                    .binaryValue(SdkBytes.fromUtf8String("GIF89a"))
                    .build());
    SQS.sendMessage(r -> r.queueUrl(url).messageBody("x").messageAttributes(attributes));
    Message got = one(url);
    assertEquals(attributes, got.messageAttributes());
    assertArrayEquals(bytes, got.messageAttributes().get("blob").binaryValue().asByteArray());
  }

  @Test
  void checksTheDigestOfASubsetOfAttributes() {
    String url = queue();
    var attributes = Map.of("a.one", text("String", "1"), "a.two", text("String", "2"), "b", text("String", "3"));
    SQS.sendMessage(r -> r.queueUrl(url).messageBody("x").messageAttributes(attributes));
    List<Message> got =
        SQS.receiveMessage(r -> r.queueUrl(url).waitTimeSeconds(10).messageAttributeNames("a.*"))
            .messages();
    assertEquals(
        Map.of("a.one", text("String", "1"), "a.two", text("String", "2")),
        got.get(0).messageAttributes());
  }

  private static MessageAttributeValue text(String type, String value) {
    return MessageAttributeValue.builder().dataType(type).stringValue(value).build();
  }

  private static SendMessageBatchRequestEntry entry(String id, String body) {
    return SendMessageBatchRequestEntry.builder().id(id).messageBody(body).build();
  }

  @Test
  void tellsWhichEntriesOfABatchFailed() {
    String url = queue();
    var sent =
        SQS.sendMessageBatch(
            r -> r.queueUrl(url).entries(entry("good", "one"), entry("bad", "\u0001"), entry("fine", "two")));
    assertEquals(List.of("good", "fine"), sent.successful().stream().map(s -> s.id()).toList());
    assertEquals("bad", sent.failed().get(0).id());
    assertEquals("InvalidMessageContents", sent.failed().get(0).code());
    assertTrue(sent.failed().get(0).senderFault());
    Message got = one(url);
    var deleted =
        SQS.deleteMessageBatch(
            r ->
                r.queueUrl(url)
                    .entries(
                        e -> e.id("good").receiptHandle(got.receiptHandle()),
                        e -> e.id("bad").receiptHandle("nonsense")));
    assertEquals("good", deleted.successful().get(0).id());
    assertEquals("ReceiptHandleIsInvalid", deleted.failed().get(0).code());
  }

  @Test
  void givesAMessageBackAtOnce() {
    String url = queue();
    SQS.sendMessage(r -> r.queueUrl(url).messageBody("again"));
    Message first = one(url);
    SQS.changeMessageVisibility(
        r -> r.queueUrl(url).receiptHandle(first.receiptHandle()).visibilityTimeout(0));
    Message second = one(url);
    assertEquals(first.messageId(), second.messageId());
    assertEquals("2", second.attributes().get(MessageSystemAttributeName.APPROXIMATE_RECEIVE_COUNT));
  }

  @Test
  void keepsOrderAndDropsDuplicatesOnFifo() {
    String url = fifo();
    for (int i = 0; i < 5; i++) {
      String body = "m" + i;
      SQS.sendMessage(
          r -> r.queueUrl(url).messageBody(body).messageGroupId("g").messageDeduplicationId(body));
    }
    var again =
        SQS.sendMessage(
            r -> r.queueUrl(url).messageBody("m0").messageGroupId("g").messageDeduplicationId("m0"));
    List<Message> got = receive(url, 10, 10);
    assertEquals(List.of("m0", "m1", "m2", "m3", "m4"), got.stream().map(Message::body).toList());
    assertEquals(again.messageId(), got.get(0).messageId());
    List<BigInteger> numbers =
        got.stream()
            .map(m -> new BigInteger(m.attributes().get(MessageSystemAttributeName.SEQUENCE_NUMBER)))
            .toList();
    assertEquals(numbers.stream().sorted().distinct().toList(), numbers);
    assertEquals(new BigInteger(again.sequenceNumber()), numbers.get(0));
  }

  @Test
  void movesDeadLettersAndBringsThemBack() throws InterruptedException {
    String dead = queue();
    String policy = "{\"deadLetterTargetArn\":\"" + arn(dead) + "\",\"maxReceiveCount\":1}";
    String url =
        queue(
            Map.of(
                QueueAttributeName.REDRIVE_POLICY, policy,
                QueueAttributeName.VISIBILITY_TIMEOUT, "0"));
    SQS.sendMessage(r -> r.queueUrl(url).messageBody("poison"));
    one(url);
    assertTrue(receive(url, 1, 0).isEmpty());
    assertEquals(
        List.of(url), SQS.listDeadLetterSourceQueues(r -> r.queueUrl(dead)).queueUrls());
    Message letter =
        SQS.receiveMessage(
                r ->
                    r.queueUrl(dead)
                        .waitTimeSeconds(10)
                        .visibilityTimeout(0)
                        .messageSystemAttributeNames(
                            MessageSystemAttributeName.DEAD_LETTER_QUEUE_SOURCE_ARN))
            .messages()
            .get(0);
    assertEquals(
        arn(url),
        letter.attributes().get(MessageSystemAttributeName.DEAD_LETTER_QUEUE_SOURCE_ARN));

    String handle = SQS.startMessageMoveTask(r -> r.sourceArn(arn(dead))).taskHandle();
    assertNotEquals("", handle);
    assertEquals("poison", one(url).body());
    String status = "";
    for (int tries = 0; tries < 100 && !status.equals("COMPLETED"); tries++) {
      Thread.sleep(50);
      status = SQS.listMessageMoveTasks(r -> r.sourceArn(arn(dead))).results().get(0).status();
    }
    assertEquals("COMPLETED", status);
  }

  @Test
  void raisesTypedErrors() {
    String url = queue();
    String name = url.substring(url.lastIndexOf('/') + 1);
    var missing =
        assertThrows(
            QueueDoesNotExistException.class, () -> SQS.getQueueUrl(r -> r.queueName("nowhere")));
    assertEquals(
        "AWS.SimpleQueueService.NonExistentQueue", missing.awsErrorDetails().errorCode());
    assertEquals(400, missing.statusCode());
    assertThrows(
        QueueNameExistsException.class,
        () ->
            SQS.createQueue(
                r ->
                    r.queueName(name)
                        .attributes(Map.of(QueueAttributeName.VISIBILITY_TIMEOUT, "7"))));
    assertThrows(
        ReceiptHandleIsInvalidException.class,
        () -> SQS.deleteMessage(r -> r.queueUrl(url).receiptHandle("nonsense")));
    assertThrows(
        EmptyBatchRequestException.class,
        () -> SQS.sendMessageBatch(r -> r.queueUrl(url).entries(List.of())));
    assertThrows(
        BatchEntryIdsNotDistinctException.class,
        () -> SQS.sendMessageBatch(r -> r.queueUrl(url).entries(entry("a", "1"), entry("a", "2"))));
    var task =
        assertThrows(
            ResourceNotFoundException.class,
            () ->
                SQS.startMessageMoveTask(
                    r -> r.sourceArn("arn:aws:sqs:us-east-1:400000000001:nowhere")));
    assertEquals(404, task.statusCode());
    var untyped =
        assertThrows(
            SqsException.class,
            () -> SQS.sendMessage(r -> r.queueUrl(url).messageBody("x").delaySeconds(901)));
    assertEquals("InvalidParameterValue", untyped.awsErrorDetails().errorCode());
  }
}
