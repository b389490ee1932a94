"""A made lineage for the tests and the benchmark of the page: a shop, and what is hard to draw.

The shop is what a user has, from Kafka to a report. `wide` has 300 columns; `hub` has more neighbours than are drawn;
`ring` goes in a circle; `odd` has names that would break a page which takes them for HTML; `big` is 300 datasets with
900 edges.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

DAY = 86_400
HOSTILE = (
    '<img src=x onerror="document.title=1">',
    "\"quotes' & <b>bold</b>",
    "\u202eright to left\u202c שלום",
    "x" * 500,
    "a/b?c=d#e%2F",
    "  blanks  ",
    "line\nbreak\ttab",
)

SHOWN = [name.replace("\n", "\u21b5").replace("\t", "\u21e5") for name in HOSTILE]  # on one line

Field = tuple[str, str, str]  # namespace, dataset, column
Name = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class MadeEdge:
    """One column is made from another; without a target column, it decides about all rows of the target."""

    source: Field
    target: Name
    column: str | None
    kinds: tuple[str, ...] = ("IDENTITY",)
    approximate: bool = False
    opaque: bool = False
    masked: bool = False
    age_days: float = 1
    job: str = "load"
    sql: str = "SELECT * FROM source"

    @property
    def is_direct(self) -> bool:
        """Whether values flow, as opposed to rows being chosen."""
        return not {"FILTER", "JOIN", "SORT", "CONDITIONAL"} & set(self.kinds)


@dataclass
class World:
    """All datasets with their columns and types, the edges between columns, and what is tainted."""

    columns: dict[Name, dict[str, str]] = field(default_factory=dict)
    edges: list[MadeEdge] = field(default_factory=list)
    foreign: set[Name] = field(default_factory=set)
    tainted: dict[Name, tuple[int, int | None]] = field(default_factory=dict)
    tainted_fields: set[Field] = field(default_factory=set)

    def add(self, ns: str, dataset: str, columns: str) -> None:
        """Declare a dataset: columns are `name TYPE` separated by commas, a string without a type."""
        pairs = (column.strip().partition(" ") for column in columns.split(","))
        self.columns[ns, dataset] = {name: kind or "STRING" for name, _, kind in pairs}


def made_world() -> World:
    """All of it."""
    world = World()
    _shop(world)
    _wide(world)
    _hub(world)
    _ring(world)
    _odd(world)
    _big(world)
    return world


FOREIGN = """
kafka orders: order_id BIGINT, customer_id BIGINT, amount, currency, ordered_at, status
kafka payments: payment_id BIGINT, order_id BIGINT, paid, card_number, paid_at
postgres crm.customers: id BIGINT, name, email, country, created_at TIMESTAMP
files s3://landing/rates/*.csv: currency, rate, valid_on
"""
TABLES = """
staging orders: order_id BIGINT, customer_id BIGINT, amount DECIMAL, currency, ordered_at TIMESTAMP, loaded_at TIMESTAMP, source_file, batch BIGINT
staging payments: payment_id BIGINT, order_id BIGINT, paid DECIMAL, card, paid_at TIMESTAMP
staging customers: customer_id BIGINT, name, email_hash, region, since DATE
staging exchange_rates: currency, rate DOUBLE, valid_on DATE
core orders_paid: order_id BIGINT, customer_id BIGINT, amount DECIMAL, paid DECIMAL, open DECIMAL, paid_at TIMESTAMP
core customer_360: customer_id BIGINT, name, region, orders BIGINT, spent DECIMAL, last_order TIMESTAMP, score DOUBLE
marts daily_revenue: day DATE, region, revenue_eur DECIMAL, customers BIGINT
marts open_items: order_id BIGINT, open DECIMAL, age_days INT
marts churn_features: customer_id BIGINT, score DOUBLE, spent_90d DECIMAL, label INT
reports board: day DATE, revenue_eur DECIMAL, churn DOUBLE
"""  # noqa: E501
# A job with the days since its last run and its target; then `source column: target columns, kind, marks`; `*` is all.
JOBS = """
load_orders 0.1 staging orders
  kafka orders order_id: order_id
  kafka orders customer_id: customer_id
  kafka orders ordered_at: ordered_at
  kafka orders amount: amount TRANSFORMATION
  kafka orders currency: currency TRANSFORMATION
  kafka orders status: * FILTER
load_payments 3 staging payments
  kafka payments payment_id: payment_id
  kafka payments order_id: order_id
  kafka payments paid_at: paid_at
  kafka payments paid: paid TRANSFORMATION
  kafka payments card_number: card TRANSFORMATION masked
sync_customers 20 staging customers
  postgres crm.customers id: customer_id
  postgres crm.customers name: name
  postgres crm.customers email: email_hash TRANSFORMATION masked
  postgres crm.customers country: region TRANSFORMATION approximate
  postgres crm.customers created_at: since TRANSFORMATION
load_rates 1 staging exchange_rates
  files s3://landing/rates/*.csv currency: currency
  files s3://landing/rates/*.csv rate: rate
  files s3://landing/rates/*.csv valid_on: valid_on
match_payments 0.5 core orders_paid
  staging orders order_id: order_id
  staging orders customer_id: customer_id
  staging orders amount: amount
  staging payments paid: paid AGGREGATION
  staging payments paid: open TRANSFORMATION
  staging orders amount: open TRANSFORMATION
  staging payments paid_at: paid_at AGGREGATION
  staging payments order_id: * JOIN
  staging orders order_id: * JOIN
customer_360 0.4 core customer_360
  staging customers customer_id: customer_id
  staging customers name: name
  staging customers region: region
  core orders_paid order_id: orders AGGREGATION
  core orders_paid paid: spent AGGREGATION
  core orders_paid paid_at: last_order AGGREGATION
  core orders_paid paid: score TRANSFORMATION approximate opaque
  core orders_paid open: score TRANSFORMATION approximate opaque
  core orders_paid paid_at: score TRANSFORMATION approximate opaque
  core orders_paid customer_id: * JOIN
daily_revenue 0.2 marts daily_revenue
  staging orders ordered_at: day TRANSFORMATION
  staging customers region: region
  staging orders amount: revenue_eur AGGREGATION
  staging exchange_rates rate: revenue_eur AGGREGATION
  staging orders customer_id: customers AGGREGATION
  staging orders currency: * JOIN
open_items 1 marts open_items
  core orders_paid order_id: order_id
  core orders_paid open: open
  core orders_paid open: * FILTER
features 40 marts churn_features
  core customer_360 customer_id: customer_id
  core customer_360 score: score
  core customer_360 spent: spent_90d WINDOW
board 1 reports board
  marts daily_revenue day: day
  marts daily_revenue revenue_eur: revenue_eur AGGREGATION
  marts churn_features score: churn AGGREGATION
"""
ORDERS_SQL = """INSERT INTO staging.orders
SELECT o.order_id, o.customer_id, CAST(o.amount AS DECIMAL(12, 2)) AS amount,
       upper(o.currency) AS currency, o.ordered_at
FROM kafka.orders AS o
WHERE o.status <> 'cancelled'"""

REVENUE_SQL = """MERGE INTO marts.daily_revenue AS t
USING (
  SELECT date(o.ordered_at) AS day, c.region, sum(o.amount * r.rate) AS revenue_eur,
         count(DISTINCT o.customer_id) AS customers
  FROM staging.orders o
  JOIN staging.customers c USING (customer_id)
  JOIN staging.exchange_rates r ON r.currency = o.currency
  GROUP BY 1, 2
) AS s ON t.day = s.day AND t.region = s.region
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *"""


SQL = {"load_orders": ORDERS_SQL, "daily_revenue": REVENUE_SQL}


def _shop(world: World) -> None:
    for text in (FOREIGN, TABLES):
        for line in text.strip().splitlines():
            name, columns = line.split(": ", 1)
            ns, dataset = name.split(" ")
            world.add(ns, dataset, columns)
    world.foreign = {key for key in world.columns if key[0] in ("kafka", "postgres", "files")}
    world.edges += _edges_of_jobs()
    world.tainted["staging", "exchange_rates"] = (14, 13)
    world.tainted["marts", "daily_revenue"] = (31, 30)
    world.tainted["reports", "board"] = (9, 8)
    world.tainted_fields = {
        ("staging", "exchange_rates", "rate"),
        ("marts", "daily_revenue", "revenue_eur"),
        ("reports", "board", "revenue_eur"),
    }


def _edges_of_jobs() -> Iterator[MadeEdge]:
    job, age, target = "", 0.0, ("", "")
    for line in JOBS.strip().splitlines():
        if not line.startswith(" "):
            job, days, *name = line.split(" ")
            age, target = float(days), (name[0], name[1])
            continue
        source, made = line.strip().split(": ")
        ns, dataset, column = source.split(" ")
        to, kind, *marks = [*made.split(" "), "IDENTITY"][: max(2, len(made.split(" ")))]
        yield MadeEdge(
            source=(ns, dataset, column),
            target=target,
            column=None if to == "*" else to,
            kinds=(kind,),
            masked="masked" in marks,
            approximate="approximate" in marks,
            opaque="opaque" in marks,
            age_days=age,
            job=job,
            sql=SQL.get(job, "SELECT * FROM source"),
        )


def _wide(world: World) -> None:
    world.add("wide", "events", ",".join(f"c{at:03} STRING" for at in range(300)))
    world.add("wide", "events_clean", ",".join(f"c{at:03} STRING" for at in range(300)))
    world.edges += [
        MadeEdge(source=("wide", "events", f"c{at:03}"), target=("wide", "events_clean"), column=f"c{at:03}")
        for at in range(0, 300, 5)
    ]
    world.add("wide", "one_to_many", "key STRING,value")
    world.add("wide", "many", ",".join(f"part_{at:02} STRING" for at in range(20)))
    world.edges += [
        MadeEdge(source=("wide", "one_to_many", "key"), target=("wide", "many"), column=f"part_{at:02}")
        for at in range(20)
    ]


def _hub(world: World) -> None:
    world.add("hub", "calendar", "day DATE,week INT")
    for at in range(340):
        world.add("hub", f"fact_{at:03}", "day DATE,value DOUBLE")
        world.edges.append(MadeEdge(source=("hub", "calendar", "day"), target=("hub", f"fact_{at:03}"), column="day"))


def _ring(world: World) -> None:
    names = ("one", "two", "three")
    for name in names:
        world.add("ring", name, "a,b")
    for source, target in zip(names, (*names[1:], names[0]), strict=True):
        world.edges.append(MadeEdge(source=("ring", source, "a"), target=("ring", target), column="a"))
    world.edges.append(MadeEdge(source=("ring", "two", "a"), target=("ring", "two"), column="b"))


def _odd(world: World) -> None:
    for name in HOSTILE:
        world.columns["odd", name] = dict.fromkeys(HOSTILE, "STRING")
    for source, target in pairwise(HOSTILE):
        world.edges += [
            MadeEdge(
                source=("odd", source, column), target=("odd", target), column=column, job=HOSTILE[0], sql=HOSTILE[0]
            )
            for column in HOSTILE
        ]


def _big(world: World, *, boxes: int = 300, edges: int = 900) -> None:
    """Layers of 25 boxes: everything is made from a column of the first box, by way of the layers."""
    names = [f"table_{at:03}" for at in range(boxes)]
    for name in names:
        world.columns["big", name] = {f"column_{at}": "BIGINT" for at in range(8)}
    world.edges += _layered(names, edges)


def _layered(names: Sequence[str], edges: int) -> Iterator[MadeEdge]:
    chance = random.Random(1)
    made: dict[str, list[str]] = {names[0]: ["column_0"]}  # what is reached of each box
    ends: dict[tuple[str, str, str, str], None] = {}
    for at, name in enumerate(names[1:], 1):
        made[name] = ["column_0"]
        ends[names[max(0, at - 25)], "column_0", name, "column_0"] = None
    while len(ends) < edges:
        at = chance.randrange(25, len(names))
        source = names[max(0, at // 25 * 25 - 1 - chance.randrange(30))]
        column = f"column_{chance.randrange(8)}"
        ends[source, chance.choice(made[source]), names[at], column] = None
        made[names[at]].append(column)
    for source, column, target, to in ends:
        yield MadeEdge(source=("big", source, column), target=("big", target), column=to)
