"""A Celery application whose tasks wait in Penstock."""

from celery import Celery

app = Celery("shop", broker="sqs://any:any@127.0.0.1:9324")
app.conf.update(
    broker_transport_options={
        "region": "us-east-1",
        "is_secure": False,  # True with TLS
        "visibility_timeout": 3600,  # longer than the longest task, and than the longest countdown
        "wait_time_seconds": 20,
        "polling_interval": 0.01,  # seconds until it looks again whether a process is free; the default is 1
    },
    broker_connection_retry_on_startup=True,
    task_default_queue="shop",
    task_acks_late=True,  # what a worker did not finish goes to another one
    worker_prefetch_multiplier=1,  # 4 for many short tasks
    worker_enable_remote_control=False,  # not available on SQS
)


@app.task(autoretry_for=(ConnectionError,), retry_backoff=True, max_retries=5)
def charge(order: int, cents: int) -> None:
    print(f"order {order}: {cents} cents charged", flush=True)
