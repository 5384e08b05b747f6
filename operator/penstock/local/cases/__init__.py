"""`penstock test`: cases beside a manifest, run by the driver on a broker of their own.

`case_file` and `comparison` are pure; `case_run` runs a case, `command` all of them.
"""
