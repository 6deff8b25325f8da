"""Takes orders over HTTP. They wait in a queue until worker.py fulfils them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from orders import Order

from penstock.client import Client, Producer


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with Client() as client:
        await client.create_queue("orders")
        async with Producer(client, "orders") as producer:
            app.state.orders = producer
            yield


app = FastAPI(lifespan=lifespan)


@app.post("/orders", status_code=202)
async def place(order: Order, request: Request) -> dict[str, str]:
    sent = await request.app.state.orders.send(order)  # returns when the message is stored
    return {"message_id": sent.message_id}
