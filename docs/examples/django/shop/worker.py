import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
django.setup()

from django.db import close_old_connections

from penstock.client import Worker
from shop.models import Order

worker = Worker()


@worker.handler("orders")
def fulfil(message: dict[str, int]) -> None:
    close_old_connections()  # as Django does before each request
    Order.objects.filter(pk=message["order"]).update(fulfilled=True)
    print(f"order {message['order']} is fulfilled")
