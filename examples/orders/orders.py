"""The tables of the shop, each as a function from one DataFrame to the next.

    bronze ── silver ── revenue (gold)
       │         └───── invoices        published
       └───── quarantine ── dead letters published

Nothing here knows whether it runs as a stream, a batch or a declarative pipeline. Every row of
bronze is in silver or in quarantine, and never in both: `reason` decides.

Columns are added by `select`: `withColumn` and `withWatermark` have Spark Connect look for the
table at once, and a declarative pipeline then reads that of the run before (Spark 4.3.0).
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

BRONZE = "offset BIGINT, routing_key STRING, body BINARY"
SILVER = (
    "offset BIGINT, order STRING, at TIMESTAMP, customer STRING, country STRING, item STRING, "
    "quantity DECIMAL(12,3), price DECIMAL(12,2), discount DECIMAL(4,3), currency STRING, "
    "amount DECIMAL(18,2), extra STRING"
)
QUARANTINE = "offset BIGINT, routing_key STRING, reason STRING, body BINARY"

KNOWN = ("order", "at", "customer", "item", "quantity", "price", "discount", "currency")
"""What else an order says goes to `extra`, as JSON, until somebody gives it a column."""


def bronze(messages: DataFrame) -> DataFrame:
    """What came, as it came. offset: the message's number, without holes, so no row is there twice
    and none is missing."""
    return messages.select("offset", "routing_key", "body")


def silver(bronze: DataFrame) -> DataFrame:
    """The good orders, typed."""
    return read(bronze).where("reason IS NULL").selectExpr(*names(SILVER))


def quarantine(bronze: DataFrame) -> DataFrame:
    """The others, as they came, and why."""
    return read(bronze).where("reason IS NOT NULL").selectExpr(*names(QUARANTINE))


def revenue(silver: DataFrame) -> DataFrame:
    """Gold: orders and revenue of every minute and currency."""
    return silver.groupBy(F.window("at", "1 minute").start.alias("minute"), "currency").agg(
        F.count("*").alias("orders"), F.sum("amount").cast("DECIMAL(18,2)").alias("revenue")
    )


def invoices(silver: DataFrame) -> DataFrame:
    """One message for each good order: sent twice, the customer pays twice."""
    return silver.select(
        F.to_json(F.struct("order", "customer", "amount", "currency")).alias("body"),
        F.concat(F.lit("invoice."), "currency").alias("routing_key"),
        F.col("order").alias("message_id"),
    )


def dead_letters(quarantine: DataFrame) -> DataFrame:
    """One message for each bad order, with the reason as a header."""
    return quarantine.select(
        "body", "routing_key", F.create_map(F.lit("x-reason"), "reason").alias("headers")
    )


def read(bronze: DataFrame) -> DataFrame:
    """Every order with the columns of SILVER and a `reason`, null for a good one.

    The shop changes its form without asking: numbers become strings, `customer` an object, fields
    come and go. A variant has whatever was said, and each column is taken from where it may be.
    """
    said = bronze.select("*", F.try_parse_json(F.col("body").cast("string")).alias("said"))
    whole = said.select(
        "*",
        field("$.order", "string").alias("order"),
        field("$.at", "timestamp").alias("at"),
        F.coalesce(field("$.customer.id", "string"), field("$.customer", "string")).alias(
            "customer"
        ),
        field("$.customer.country", "string").alias("country"),
        field("$.item", "string").alias("item"),
        field("$.quantity", "decimal(12,3)").alias("quantity"),
        field("$.price", "decimal(12,2)").alias("price"),
        F.when(field("$.discount", "string").isNull(), F.lit(0).cast("decimal(4,3)"))
        .otherwise(field("$.discount", "decimal(4,3)")).alias("discount"),
        F.coalesce(field("$.currency", "string"), F.lit("EUR")).alias("currency"),
        F.expr(f"to_json(map_filter(try_cast(said AS MAP<STRING, VARIANT>), "
               f"(name, value) -> name NOT IN {KNOWN}))").alias("extra"),
    )  # fmt: skip
    amount = F.expr("quantity * price * (1 - discount)").try_cast("decimal(18,2)")
    return whole.select("*", amount.alias("amount")).select("*", reason().alias("reason"))


def field(path: str, kind: str) -> Column:
    """What the order says there, if it can be a `kind`; null otherwise."""
    return F.try_variant_get("said", path, kind)


def reason() -> Column:
    """The first thing that is wrong with an order, null where nothing is."""
    return F.expr(
        """CASE
            WHEN said IS NULL THEN 'not JSON'
            WHEN order IS NULL THEN 'no order number'
            WHEN octet_length(order) > 255 THEN 'order number is too long for a message id'
            WHEN at IS NULL THEN 'no time'
            WHEN quantity IS NULL THEN 'quantity is no number'
            WHEN price IS NULL THEN 'price is no number'
            WHEN quantity <= 0 OR price < 0 THEN 'negative'
            WHEN discount IS NULL OR discount NOT BETWEEN 0 AND 1 THEN 'discount is no share'
            WHEN amount IS NULL THEN 'too much'
            WHEN NOT currency RLIKE '^[A-Z]{3}$' THEN 'currency is no code'
        END"""
    )


def names(columns: str) -> list[str]:
    """The names in a list of columns and types."""
    return [f"`{one.split()[0]}`" for one in columns.split(", ")]
