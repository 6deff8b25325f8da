package shop;

import static org.assertj.core.api.Assertions.assertThat;

import io.awspring.cloud.sqs.operations.SqsTemplate;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.Callable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import software.amazon.awssdk.services.sqs.SqsAsyncClient;
import software.amazon.awssdk.services.sqs.model.QueueAttributeName;

/** The example of docs/recipes/spring.md, against the server of SQS_ENDPOINT. */
@SpringBootTest(properties = "spring.cloud.aws.sqs.endpoint=${SQS_ENDPOINT}")
@ExtendWith(OutputCaptureExtension.class)
class ShopTest {
    @Autowired Shop.Orders orders;
    @Autowired SqsTemplate queues;
    @Autowired SqsAsyncClient sqs;

    @Test
    void anOrderIsFulfilledAndItsMessageDeleted(CapturedOutput output) throws Exception {
        orders.place(new Shop.Order("espresso", 2));
        until(() -> output.getOut().contains("2 x espresso"));
        until(() -> messages("orders") == 0);
    }

    @Test
    void aBodyThatIsNoOrderStaysInTheQueue(CapturedOutput output) throws Exception {
        queues.send("orders", "no order");
        until(() -> output.getOut().contains("MessageConversionException"));
        assertThat(messages("orders")).isEqualTo(1);
        sqs.purgeQueue(each -> each.queueUrl("orders")).get();
    }

    /** Waiting and in flight. */
    private int messages(String queue) throws Exception {
        Map<QueueAttributeName, String> counts =
                sqs.getQueueAttributes(each -> each.queueUrl(queue).attributeNames(QueueAttributeName.ALL)).get().attributes();
        return Integer.parseInt(counts.get(QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES))
                + Integer.parseInt(counts.get(QueueAttributeName.APPROXIMATE_NUMBER_OF_MESSAGES_NOT_VISIBLE));
    }

    private static void until(Callable<Boolean> done) throws Exception {
        Instant deadline = Instant.now().plus(Duration.ofSeconds(60));
        while (!done.call()) {
            assertThat(Instant.now()).isBefore(deadline);
            Thread.sleep(50);
        }
    }
}
