"""Fulfils orders."""

from orders import Order

from penstock.client import Worker

worker = Worker()


@worker.handler("orders")
async def fulfil(order: Order) -> None:
    print(f"{order.quantity} x {order.item}")
