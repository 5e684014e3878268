"""Timing of 2F per frequency bin, template and detector, in each stage, on this machine."""

from jfstat.benchmarking.measure import Measurement, Request, measure
from jfstat.benchmarking.report import as_dict, device_name, main_table, stage_table
from jfstat.benchmarking.settings import CPU_ROWS, ROWS, Setting

__all__ = [
    "CPU_ROWS",
    "ROWS",
    "Measurement",
    "Request",
    "Setting",
    "as_dict",
    "device_name",
    "main_table",
    "measure",
    "stage_table",
]
