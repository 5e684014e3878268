"""Searches for tests: `search` with the fields of its options given by name, and how a search is divided."""

from dataclasses import fields

import jfstat
from jfstat.searching.bank import stacked_bank
from jfstat.searching.reduce.toplist import Toplist
from jfstat.searching.statistic import Task
from jfstat.searching.statistics import statistic_for

KINDS = {"keep": jfstat.Keep, "details": jfstat.Details, "run": jfstat.Run}


def search(data, bank, *plain, **given):
    """Return the table of `jfstat.search`; options are its plain ones and those of Keep, Details, LinePrior and Run."""
    prior = {name: given.pop(name) for name in ("fstar0", "olgx") if name in given}
    if prior:
        given["line_prior"] = jfstat.LinePrior(**prior)
    for name, kind in KINDS.items():
        own = {field.name: given.pop(field.name) for field in fields(kind) if field.name in given}
        if own:
            given[name] = kind(**own)
    return jfstat.search(data, bank, *plain, **given)


def task_of(data, bank, statistic=None, toplist=None):
    """Return what a search with a bank is asked to compute."""
    return Task(data, stacked_bank(bank), statistic_for(data, statistic), toplist or Toplist(1, None))


def division(data, bank, batch_size=None, engine=None):
    """Return how a search with a bank is divided."""
    task = task_of(data, bank)
    return task.statistic.division(task, jfstat.Run(batch_size=batch_size, engine=engine))
