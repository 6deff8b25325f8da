package shop;

import io.awspring.cloud.sqs.annotation.SqsListener;
import io.awspring.cloud.sqs.operations.SqsTemplate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.stereotype.Component;

@SpringBootApplication
public class Shop {
    public static void main(String[] arguments) {
        SpringApplication.run(Shop.class, arguments);
    }

    record Order(String item, int quantity) {}

    @Component
    static class Orders {
        private static final Logger log = LoggerFactory.getLogger(Orders.class);
        private final SqsTemplate queues;

        Orders(SqsTemplate queues) {
            this.queues = queues;
        }

        void place(Order order) {
            queues.send("orders", order);
        }

        // The message is deleted when this returns, and comes again if it throws.
        @SqsListener("orders")
        void fulfil(Order order) {
            log.info("{} x {}", order.quantity(), order.item());
        }
    }
}
