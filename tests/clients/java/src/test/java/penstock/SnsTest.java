package penstock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.net.URI;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.awscore.client.builder.AwsClientBuilder;
import software.amazon.awssdk.awscore.client.builder.AwsSyncClientBuilder;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.http.urlconnection.UrlConnectionHttpClient;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.sns.SnsClient;
import software.amazon.awssdk.services.sns.model.BatchEntryIdsNotDistinctException;
import software.amazon.awssdk.services.sns.model.InvalidParameterException;
import software.amazon.awssdk.services.sns.model.InvalidParameterValueException;
import software.amazon.awssdk.services.sns.model.MessageAttributeValue;
import software.amazon.awssdk.services.sns.model.NotFoundException;
import software.amazon.awssdk.services.sns.model.PublishResponse;
import software.amazon.awssdk.services.sns.model.ResourceNotFoundException;
import software.amazon.awssdk.services.sns.model.Tag;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.MessageSystemAttributeName;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;

/** Topics, and the queues that are subscribed to them. The SDK checks the MD5 of what it receives. */
class SnsTest {
  private static final Map<String, String> RAW = Map.of("RawMessageDelivery", "true");
  private static final SnsClient SNS = reaching(SnsClient.builder()).build();
  private static final SqsClient SQS = reaching(SqsClient.builder()).build();

  private static <B extends AwsClientBuilder<B, ?> & AwsSyncClientBuilder<B, ?>> B reaching(
      B builder) {
    return builder
        .endpointOverride(URI.create(System.getenv("SQS_ENDPOINT")))
        .region(Region.US_EAST_1)
        .credentialsProvider(
            StaticCredentialsProvider.create(AwsBasicCredentials.create("400000000021", "any")))
        .httpClientBuilder(UrlConnectionHttpClient.builder());
  }

  @AfterAll
  static void close() {
    SNS.close();
    SQS.close();
  }

  private static String topic(Map<String, String> attributes) {
    String name =
        "java-" + UUID.randomUUID() + (attributes.containsKey("FifoTopic") ? ".fifo" : "");
    return SNS.createTopic(r -> r.name(name).attributes(attributes)).topicArn();
  }

  private record Subscribed(String url, String queueArn, String arn) {}

  private static Subscribed subscribe(String topic, Map<String, String> attributes) {
    boolean fifo = topic.endsWith(".fifo");
    String name = "java-" + UUID.randomUUID() + (fifo ? ".fifo" : "");
    Map<QueueAttributeName, String> kind =
        fifo ? Map.of(QueueAttributeName.FIFO_QUEUE, "true") : Map.of();
    String url = SQS.createQueue(r -> r.queueName(name).attributes(kind)).queueUrl();
    String queue =
        SQS.getQueueAttributes(r -> r.queueUrl(url).attributeNames(QueueAttributeName.QUEUE_ARN))
            .attributes()
            .get(QueueAttributeName.QUEUE_ARN);
    String made =
        SNS.subscribe(
                r -> r.topicArn(topic).protocol("sqs").endpoint(queue).attributes(attributes))
            .subscriptionArn();
    return new Subscribed(url, queue, made);
  }

  /** Messages arrive soon after they were published, and not all at once. */
  private static List<Message> receive(String url, int count) {
    List<Message> got = new ArrayList<>();
    while (got.size() < count) {
      List<Message> more =
          SQS.receiveMessage(
                  r ->
                      r.queueUrl(url)
                          .maxNumberOfMessages(10)
                          .waitTimeSeconds(10)
                          .messageAttributeNames("All")
                          .messageSystemAttributeNames(MessageSystemAttributeName.ALL))
              .messages();
      assertFalse(more.isEmpty(), got.size() + " of " + count + " messages");
      got.addAll(more);
      more.forEach(
          each -> SQS.deleteMessage(r -> r.queueUrl(url).receiptHandle(each.receiptHandle())));
    }
    assertEquals(count, got.size());
    return got;
  }

  private static MessageAttributeValue text(String type, String value) {
    return MessageAttributeValue.builder().dataType(type).stringValue(value).build();
  }

  @Test
  void createsFindsAndChangesATopic() {
    String topic = topic(Map.of("DisplayName", "Größe"));
    String name = topic.substring(topic.lastIndexOf(':') + 1);
    assertEquals(topic, SNS.createTopic(r -> r.name(name)).topicArn());
    SNS.setTopicAttributes(
        r -> r.topicArn(topic).attributeName("DisplayName").attributeValue("Wasser"));
    var shown = SNS.getTopicAttributes(r -> r.topicArn(topic)).attributes();
    assertEquals("Wasser", shown.get("DisplayName"));
    assertTrue(shown.get("Policy").contains(topic));
    Tag tag = Tag.builder().key("team").value("water").build();
    SNS.tagResource(r -> r.resourceArn(topic).tags(tag));
    assertEquals(List.of(tag), SNS.listTagsForResource(r -> r.resourceArn(topic)).tags());
    SNS.deleteTopic(r -> r.topicArn(topic));
    assertThrows(
        NotFoundException.class, () -> SNS.getTopicAttributes(r -> r.topicArn(topic)));
  }

  @Test
  void listsTopicsByPages() {
    Set<String> made = new HashSet<>();
    for (int i = 0; i < 101; i++) {
      made.add(topic(Map.of()));
    }
    List<Integer> sizes = new ArrayList<>();
    Set<String> listed = new HashSet<>();
    SNS.listTopicsPaginator()
        .forEach(
            page -> {
              sizes.add(page.topics().size());
              page.topics().forEach(each -> listed.add(each.topicArn()));
            });
    assertTrue(sizes.size() >= 2);
    assertEquals(100, sizes.get(0));
    assertTrue(listed.containsAll(made));
  }

  @Test
  void filtersWhatAQueueGets() {
    String topic = topic(Map.of());
    Subscribed filtered =
        subscribe(
            topic,
            Map.of("FilterPolicy", "{\"city\":[\"Zürich\"],\"amount\":[{\"numeric\":[\">\",10]}]}"));
    Subscribed raw = subscribe(topic, RAW);
    String body = "größer 水 \uD83D\uDEB0 <&>\n\t\"quoted\"";
    byte[] bytes = {0, -1, 10, 127};
    var attributes =
        Map.of(
            "city", text("String", "Zürich"),
            "amount", text("Number", "12.50"),
            "blob",
                MessageAttributeValue.builder()
                    .dataType("Binary")
                    .binaryValue(SdkBytes.fromByteArray(bytes))
                    .build());
    SNS.publish(r -> r.topicArn(topic).message("no attributes"));
    String id =
        SNS.publish(
                r -> r.topicArn(topic).message(body).subject("Öl").messageAttributes(attributes))
            .messageId();
    String envelope = receive(filtered.url(), 1).get(0).body();
    assertTrue(envelope.contains("\"MessageId\" : \"" + id + "\""), envelope);
    assertTrue(envelope.contains("\"Subject\" : \"Öl\""), envelope);
    Message plain =
        receive(raw.url(), 2).stream().filter(m -> m.body().equals(body)).findFirst().get();
    assertEquals(
        SdkBytes.fromByteArray(bytes), plain.messageAttributes().get("blob").binaryValue());
    assertEquals("12.50", plain.messageAttributes().get("amount").stringValue());

    SNS.unsubscribe(r -> r.subscriptionArn(filtered.arn()));
    var left = SNS.listSubscriptionsByTopic(r -> r.topicArn(topic)).subscriptions();
    assertEquals(List.of(raw.queueArn()), left.stream().map(s -> s.endpoint()).toList());
    assertThrows(
        NotFoundException.class,
        () -> SNS.getSubscriptionAttributes(r -> r.subscriptionArn(filtered.arn())));
  }

  @Test
  void tellsWhichEntriesOfABatchFailed() {
    String topic = topic(Map.of());
    Subscribed raw = subscribe(topic, RAW);
    var sent =
        SNS.publishBatch(
            r ->
                r.topicArn(topic)
                    .publishBatchRequestEntries(
                        e ->
                            e.id("good")
                                .message("one")
                                .messageAttributes(Map.of("city", text("String", "Zürich"))),
                        e -> e.id("bad").message("two").subject("two\nlines")));
    assertEquals(List.of("good"), sent.successful().stream().map(s -> s.id()).toList());
    assertEquals("bad", sent.failed().get(0).id());
    assertEquals("InvalidParameter", sent.failed().get(0).code());
    assertTrue(sent.failed().get(0).senderFault());
    Message got = receive(raw.url(), 1).get(0);
    assertEquals("one", got.body());
    assertEquals("Zürich", got.messageAttributes().get("city").stringValue());
  }

  @Test
  void keepsOrderAndDropsDuplicatesOnFifo() {
    String topic = topic(Map.of("FifoTopic", "true", "ContentBasedDeduplication", "true"));
    Subscribed raw = subscribe(topic, RAW);
    List<PublishResponse> sent = new ArrayList<>();
    for (String body : List.of("m0", "m1", "m2", "m3", "m4", "m0")) {
      sent.add(SNS.publish(r -> r.topicArn(topic).message(body).messageGroupId("g")));
    }
    assertEquals(sent.get(0).messageId(), sent.get(5).messageId());
    assertEquals(sent.get(0).sequenceNumber(), sent.get(5).sequenceNumber());
    List<BigInteger> numbers =
        sent.subList(0, 5).stream().map(s -> new BigInteger(s.sequenceNumber())).toList();
    assertEquals(numbers.stream().sorted().distinct().toList(), numbers);
    assertEquals(
        List.of("m0", "m1", "m2", "m3", "m4"),
        receive(raw.url(), 5).stream().map(Message::body).toList());
  }

  @Test
  void raisesTypedErrors() {
    String topic = topic(Map.of());
    String nowhere = topic + "-nowhere";
    var missing =
        assertThrows(
            NotFoundException.class, () -> SNS.publish(r -> r.topicArn(nowhere).message("x")));
    assertEquals("NotFound", missing.awsErrorDetails().errorCode());
    assertEquals("Topic does not exist", missing.awsErrorDetails().errorMessage());
    assertEquals(404, missing.statusCode());
    assertThrows(
        InvalidParameterException.class, () -> SNS.createTopic(r -> r.name("not a name")));
    assertThrows(
        InvalidParameterValueException.class,
        () ->
            SNS.publish(
                r ->
                    r.topicArn(topic)
                        .message("x")
                        .messageAttributes(Map.of("n", text("Number", "one")))));
    assertThrows(
        BatchEntryIdsNotDistinctException.class,
        () ->
            SNS.publishBatch(
                r ->
                    r.topicArn(topic)
                        .publishBatchRequestEntries(
                            e -> e.id("same").message("1"), e -> e.id("same").message("2"))));
    assertThrows(
        ResourceNotFoundException.class,
        () -> SNS.listTagsForResource(r -> r.resourceArn(nowhere)));
  }
}
