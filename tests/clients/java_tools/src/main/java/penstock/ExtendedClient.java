package penstock;

import com.amazon.sqs.javamessaging.AmazonSQSExtendedClient;
import com.amazon.sqs.javamessaging.ExtendedClientConfiguration;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import software.amazon.awssdk.services.sqs.SqsClient;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.MessageAttributeValue;

/** Sends and receives large messages. Bodies are on the standard streams, one in each line. */
public class ExtendedClient {
  public static void main(String[] arguments) throws Exception {
    String queue = arguments[1];
    boolean legacy = arguments.length > 2 && arguments[2].equals("legacy");
    ExtendedClientConfiguration configuration =
        new ExtendedClientConfiguration()
            .withPayloadSupportEnabled(Reach.s3(), "bucket", true)
            .withLegacyReservedAttributeNameDisabled();
    if (legacy) {
      configuration =
          new ExtendedClientConfiguration().withPayloadSupportEnabled(Reach.s3(), "bucket", true);
    }
    SqsClient sqs = new AmazonSQSExtendedClient(Reach.sqs(), configuration);
    switch (arguments[0]) {
      case "send" -> send(sqs, queue);
      case "receive" -> receive(sqs, queue);
      default -> throw new IllegalArgumentException(arguments[0]);
    }
  }

  private static void send(SqsClient sqs, String queue) throws Exception {
    String input = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
    MessageAttributeValue one =
        MessageAttributeValue.builder().dataType("Number").stringValue("1").build();
    for (String body : input.split("\n")) {
      sqs.sendMessage(r -> r.queueUrl(queue).messageBody(body).messageAttributes(Map.of("n", one)));
    }
  }

  /** Prints the body and the names of the attributes of one message, and deletes it. */
  private static void receive(SqsClient sqs, String queue) throws Exception {
    List<Message> messages =
        sqs.receiveMessage(
                r -> r.queueUrl(queue).waitTimeSeconds(20).messageAttributeNames("All"))
            .messages();
    for (Message message : messages) {
      String names = String.join(",", new TreeSet<>(message.messageAttributes().keySet()));
      String line = names + " " + message.body() + "\n";
      System.out.write(line.getBytes(StandardCharsets.UTF_8));
      sqs.changeMessageVisibility(
          r ->
              r.queueUrl(queue)
                  .receiptHandle(message.receiptHandle())
                  .visibilityTimeout(60));
      sqs.deleteMessage(r -> r.queueUrl(queue).receiptHandle(message.receiptHandle()));
    }
    System.out.flush();
  }
}
