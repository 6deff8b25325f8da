package penstock;

import com.amazonaws.services.sqs.AmazonSQSRequester;
import com.amazonaws.services.sqs.AmazonSQSRequesterClientBuilder;
import com.amazonaws.services.sqs.AmazonSQSResponder;
import com.amazonaws.services.sqs.AmazonSQSResponderClientBuilder;
import com.amazonaws.services.sqs.MessageContent;
import java.util.List;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.services.sqs.model.Message;
import software.amazon.awssdk.services.sqs.model.SendMessageRequest;

/** Sends a request and prints the response, or answers a request. */
public class TemporaryQueues {
  public static void main(String[] arguments) throws Exception {
    String queue = arguments[1];
    switch (arguments[0]) {
      case "request" -> request(queue, arguments[2]);
      case "respond" -> respond(queue);
      default -> throw new IllegalArgumentException(arguments[0]);
    }
    System.exit(0); // its threads are no daemons
  }

  private static void request(String queue, String body) throws Exception {
    AmazonSQSRequester requester =
        AmazonSQSRequesterClientBuilder.standard().withAmazonSQS(Reach.sqs()).build();
    SendMessageRequest request =
        SendMessageRequest.builder().queueUrl(queue).messageBody(body).build();
    Message response = requester.sendMessageAndGetResponse(request, 60, TimeUnit.SECONDS);
    System.out.println(response.body());
    requester.shutdown();
  }

  /** Answers one request with its body and an exclamation mark. */
  private static void respond(String queue) throws Exception {
    AmazonSQSResponder responder =
        AmazonSQSResponderClientBuilder.standard().withAmazonSQS(Reach.sqs()).build();
    List<Message> messages =
        Reach.sqs()
            .receiveMessage(r -> r.queueUrl(queue).waitTimeSeconds(20).messageAttributeNames("All"))
            .messages();
    for (Message message : messages) {
      MessageContent request = MessageContent.fromMessage(message);
      responder.sendResponseMessage(request, new MessageContent(message.body() + "!"));
      Reach.sqs().deleteMessage(r -> r.queueUrl(queue).receiptHandle(message.receiptHandle()));
    }
    responder.shutdown();
  }
}
