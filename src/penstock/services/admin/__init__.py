"""The admin API: look into queues and change single messages without receiving them."""
