"""The client processes of a run: unmodified pika, aio-pika and Celery, each with its own trace."""
