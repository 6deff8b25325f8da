"""What waits in the queue."""

from pydantic import BaseModel


class Order(BaseModel):
    item: str
    quantity: int = 1
