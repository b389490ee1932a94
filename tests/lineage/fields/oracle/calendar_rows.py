"""Rows of `date_dim`, the calendar of TPC-DS: a date, and what follows from it.

Sub-queries of TPC-DS take the one number of a month or week that belongs to a year and month or a date, so these
columns have to agree.
"""

from __future__ import annotations

import datetime
import random

from tests.lineage.fields.oracle.constants import Constants, Value

DATES = [datetime.date(1996 + at // 12, at % 12 + 1, 15) for at in range(84)]
_FIRST = datetime.date(1900, 1, 1)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def calendar_rows(constants: Constants, count: int, chance: random.Random) -> dict[str, list[Value]]:
    """Rows with different dates: many that the query asks for, and many that are near to or one year after another."""
    dates: list[datetime.date] = []
    while len(dates) < count:
        kind = chance.random()
        if dates and kind < 0.25:
            date = chance.choice(dates) + datetime.timedelta(days=chance.randint(-3, 3))
        elif dates and kind < 0.4:
            date = chance.choice(dates) + datetime.timedelta(weeks=chance.choice((52, 53, -52, -53)))
        else:
            date = _asked_for(constants, chance)
        if date not in dates:
            dates.append(date)
    return {
        "d_date_sk": list(range(1, count + 1)),
        "d_date": list(dates),
        "d_year": [date.year for date in dates],
        "d_moy": [date.month for date in dates],
        "d_dom": [date.day for date in dates],
        "d_qoy": [(date.month + 2) // 3 for date in dates],
        "d_dow": [date.isoweekday() % 7 for date in dates],
        "d_day_name": [_DAYS[date.weekday()] for date in dates],
        "d_month_seq": [_month(date) for date in dates],
        "d_week_seq": [(date - _FIRST).days // 7 + 1 for date in dates],
        "d_quarter_seq": [_month(date) // 3 for date in dates],
        "d_quarter_name": [f"{date.year}Q{(date.month + 2) // 3}" for date in dates],
    }


def _month(date: datetime.date) -> int:
    """The number of months since 1900."""
    return (date.year - 1900) * 12 + date.month - 1


def _asked_for(constants: Constants, chance: random.Random) -> datetime.date:
    """A date that fits the values which the query compares parts of dates with."""
    fitting = [value for value in constants.of("d_date") if isinstance(value, datetime.date)]
    if fitting and chance.random() < 0.7:
        return chance.choice(fitting) + datetime.timedelta(days=chance.choice((0, 0, 0, 1, 7)))
    months = _numbers(constants, "d_month_seq")
    if months:
        month = chance.choice(months)
        return datetime.date(1900 + month // 12, month % 12 + 1, chance.randint(1, 28))
    quarters = [str(value) for value in constants.of("d_quarter_name")]
    if quarters:
        year, quarter = map(int, chance.choice(quarters).split("Q"))
        return datetime.date(year, quarter * 3 - chance.randint(0, 2), chance.randint(1, 28))
    years = [year for year in _numbers(constants, "d_year") if year > 1900] or [1999, 2000, 2001]
    month = chance.choice(_numbers(constants, "d_moy") or _of_quarters(constants) or list(range(1, 13)))
    day = chance.choice(_numbers(constants, "d_dom") or list(range(1, 29)))
    return datetime.date(chance.choice(years), min(max(month, 1), 12), min(max(day, 1), 28))


def _numbers(constants: Constants, column: str) -> list[int]:
    return [value for value in constants.of(column) if isinstance(value, int) and value > 0]


def _of_quarters(constants: Constants) -> list[int]:
    return [quarter * 3 for quarter in _numbers(constants, "d_qoy") if 1 <= quarter <= 4]
